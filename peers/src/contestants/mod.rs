//! What carries the messages: one file for each way of doing it, and what they all keep to.
//!
//! A new one is a file with a [`Contestant`], and a line in [`one`]; or a [`Family`] of another package.

mod check;
mod framed;
mod sketch;
mod stream;
mod tautline;
mod zstd;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};

pub use self::check::{Inbox, Trips};
use crate::failure::Failure;

/// The messages of one pass, in order.
pub type Messages = Arc<[Bytes]>;

/// What an end does.
pub type Task<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// A way to bring messages from one end to the other.
pub trait Contestant: fmt::Debug {
    /// What it competes as.
    fn kind(&self) -> Kind;

    /// The end that messages arrive at, for all passes of one table. An error says why it cannot run
    /// here; the others run without it. `longest` is the length of the longest message to come.
    fn receiver(&self, longest: usize) -> Task<Arc<dyn Receiver>>;

    /// The other end, likewise.
    fn sender(&self, longest: usize) -> Task<Arc<dyn Sender>>;
}

/// What a contestant stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What one would use or write instead.
    Peer,
    /// What one would write who knew of blocks with history, with the best level known beforehand.
    Sketch,
    /// This crate.
    Own,
}

/// The end that messages arrive at.
pub trait Receiver: Send + Sync {
    /// Where the sender, or the relay before it, connects to.
    fn address(&self) -> SocketAddr;

    /// Takes the messages of one new connection until its end.
    fn receive(self: Arc<Self>, inbox: Inbox) -> Task<Inbox>;

    /// Where one connects to who asks.
    fn echo_address(&self) -> SocketAddr {
        self.address()
    }

    /// What it waits for before each of its turns; nothing of that is measured.
    fn prepare(self: Arc<Self>) -> Task<()> {
        Box::pin(async { Ok(()) })
    }

    /// Sends so many messages of one new connection back, each when it comes.
    fn echo(self: Arc<Self>, count: usize) -> Task<()>;

    /// Processes of the system's that work for it, besides this one.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// The end that messages come from.
pub trait Sender: Send + Sync {
    /// What it waits for before each of its turns; nothing of that is measured.
    fn prepare(self: Arc<Self>) -> Task<()> {
        Box::pin(async { Ok(()) })
    }

    /// Sends the messages over a new connection, as fast as they are taken from it. The time is that
    /// just before the first of them was given away.
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant>;

    /// Sends the messages over a new connection, each once the one before it has come back.
    fn ask(self: Arc<Self>, to: SocketAddr, trips: Trips) -> Task<Trips>;
}

/// The one place that reads a clock.
#[expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the clock; the core that is measured does not"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Contestants that another package adds.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// What stands before the colon, and alone for all members.
    pub name: &'static str,
    /// What stands behind it.
    pub settings: &'static [&'static str],
    /// Makes the contestant of a setting, if there is one.
    pub make: fn(&str) -> Option<Box<dyn Contestant>>,
    /// A line or two for the help, without the names.
    pub meaning: &'static str,
}

/// A contestant and what it is called.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) contestant: Box<dyn Contestant>,
}

/// The families of this package.
pub(crate) const DEFAULT: [&str; 4] = ["ld", "stream", "sketch", "tautline"];

/// The members of a family, if the word is one's.
fn members(word: &str, extra: &[Family]) -> Vec<String> {
    if let Some(family) = extra.iter().find(|family| family.name == word) {
        let named = |setting: &&str| format!("{word}:{setting}");
        return family.settings.iter().map(named).collect();
    }
    let members: &[&str] = match word {
        "ld" => &["ld:none", "ld:lz4", "ld:zstd"],
        "stream" => &["stream:zstd-1", "stream:zstd-3"],
        "sketch" => &[
            "sketch:-5",
            "sketch:-1",
            "sketch:1",
            "sketch:3",
            "sketch:9",
            "sketch:-5/16KiB",
            "sketch:-1/16KiB",
            "sketch:1/16KiB",
            "sketch:3/16KiB",
            "sketch:9/16KiB",
        ],
        "tautline" => &["tautline:cost", "tautline:none"],
        _ => &[],
    };
    members.iter().map(ToString::to_string).collect()
}

/// The contestants that the words name, each once. With a `guard`, those that have one limit their
/// codec time by the processor load.
pub(crate) fn named(words: &[String], guard: bool, extra: &[Family]) -> Result<Vec<Named>, String> {
    let mut all: Vec<Named> = Vec::new();
    for word in words {
        let mut names = members(word, extra);
        if names.is_empty() {
            names.push(word.clone());
        }
        for name in names {
            let contestant = one(&name, guard, extra)?;
            if !all.iter().any(|known| known.name == name) {
                all.push(Named { name, contestant });
            }
        }
    }
    Ok(all)
}

fn one(name: &str, guard: bool, extra: &[Family]) -> Result<Box<dyn Contestant>, String> {
    let (family, setting) = name.split_once(':').unwrap_or((name, ""));
    let contestant: Option<Box<dyn Contestant>> = match family {
        "ld" => framed::Framing::named(setting).map(|it| Box::new(it) as _),
        "stream" => stream::Flushed::named(setting).map(|it| Box::new(it) as _),
        "sketch" => sketch::Blocks::named(setting).map(|it| Box::new(it) as _),
        "tautline" => Some(Box::new(tautline::Tautline::named(setting, guard)?)),
        _ => extra
            .iter()
            .find(|known| known.name == family)
            .and_then(|known| (known.make)(setting)),
    };
    contestant.ok_or_else(|| {
        format!(
            "`{name}` is no contestant (ld:none, ld:lz4, ld:zstd, stream:zstd-LEVEL, sketch:LEVEL, \
             sketch:LEVEL/16KiB, tautline:POLICY, or a family: {})",
            families(extra).join(", ")
        )
    })
}

/// Those that run if none are named.
pub(crate) fn families(extra: &[Family]) -> Vec<&'static str> {
    let extra = extra.iter().map(|family| family.name);
    DEFAULT.into_iter().chain(extra).collect()
}

/// What contestants over TCP listen with.
///
/// # Errors
///
/// The system's.
pub async fn listen() -> Result<(TcpListener, SocketAddr), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// The next connection, whose small writes leave at once.
///
/// # Errors
///
/// The system's.
pub async fn accept(listener: &TcpListener) -> Result<TcpStream, Failure> {
    let (socket, _) = listener.accept().await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// The other end went away before all was done.
pub fn gone() -> Failure {
    Failure::Error("the other end gave up".to_owned())
}

/// A connection whose small writes leave at once.
///
/// # Errors
///
/// The system's.
pub async fn connect(to: SocketAddr) -> Result<TcpStream, Failure> {
    let socket = TcpStream::connect(to).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_name_is_known_once_and_nothing_else_is() {
        let all = named(&words(&DEFAULT), true, &[]).expect("all of them");
        assert_eq!(all.len(), 17);
        let again = named(&words(&["ld:lz4", "ld", "ld:lz4"]), true, &[]).expect("known");
        let names: Vec<_> = again.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["ld:lz4", "ld:none", "ld:zstd"]);
        for right in ["tautline:zstd:3+history", "sketch:22", "stream:zstd--7"] {
            assert!(named(&words(&[right]), true, &[]).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "ld:snappy",
            "ld:",
            "stream:3",
            "stream:zstd-23",
            "stream:zstd-",
            "sketch:",
            "sketch:fast",
            "sketch:23",
            "sketch:1/0KiB",
            "sketch:1/3",
            "sketch:1/99999MiB",
            "tautline:",
            "tautline:fastest",
            "tautline:zstd:99",
            "grpc",
        ] {
            assert!(named(&words(&[wrong]), true, &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_family_of_elsewhere_is_named_like_any_other() {
        let extra = [Family {
            name: "more",
            settings: &["none", "lz4"],
            make: |setting| {
                let it = framed::Framing::named(setting)?;
                Some(Box::new(it) as _)
            },
            meaning: "",
        }];
        let all = named(&words(&["more", "more:zstd", "ld:none"]), true, &extra).expect("known");
        let names: Vec<_> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["more:none", "more:lz4", "more:zstd", "ld:none"]);
        for wrong in ["more:fast", "more:", "most"] {
            assert!(named(&words(&[wrong]), true, &extra).is_err(), "{wrong}");
        }
        assert_eq!(families(&extra).last(), Some(&"more"));
    }
}
