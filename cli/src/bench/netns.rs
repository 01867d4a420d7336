//! Two network namespaces with a limited link between them: the kernel's TCP over the kernel's own
//! shaper, instead of the relay. Needs root, `ip` and `tc`.
//!
//! ```text
//!  tautline-PID-a                          tautline-PID-b
//!  sender  10.77.0.1  [tbf] --- veth --- [tbf]  10.77.0.2  receiver
//! ```

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::plan::Link;
use crate::failure::Failure;

/// Of either end, in its own namespace.
const DEVICE: &str = "end0";
/// Addresses of the two ends. Nothing else is in the namespaces that they could clash with.
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

/// The namespaces, until it is dropped.
pub(super) struct Namespaces {
    names: [String; 2],
}

impl Namespaces {
    pub(super) fn create() -> Result<Self, Failure> {
        if !rustix::process::geteuid().is_root() {
            return Err(Failure::Error(
                "--netns makes network namespaces: only root may do that".to_owned(),
            ));
        }
        let pid = std::process::id();
        let namespaces = Self {
            names: [format!("tautline-{pid}-a"), format!("tautline-{pid}-b")],
        };
        // From here on, whatever fails, dropping it removes what there is.
        let [a, b] = &namespaces.names;
        call(&["ip", "netns", "add", a])?;
        call(&["ip", "netns", "add", b])?;
        call(&[
            "ip", "-n", a, "link", "add", "name", DEVICE, "type", "veth", "peer", "name", DEVICE,
            "netns", b,
        ])?;
        for (name, address) in namespaces.names.iter().zip(ADDRESSES) {
            let network = format!("{address}/30");
            call(&["ip", "-n", name, "address", "add", &network, "dev", DEVICE])?;
            call(&["ip", "-n", name, "link", "set", "lo", "up"])?;
            call(&["ip", "-n", name, "link", "set", DEVICE, "up"])?;
        }
        Ok(namespaces)
    }

    /// Limits the link in both directions.
    pub(super) fn set(&self, link: Link) -> Result<(), Failure> {
        for name in &self.names {
            if let Some(rate) = link.0 {
                let Shape { rate, burst, limit } = Shape::of(rate);
                call(&[
                    "tc", "-n", name, "qdisc", "replace", "dev", DEVICE, "root", "tbf", "rate",
                    &rate, "burst", &burst, "limit", &limit,
                ])?;
            } else {
                // There may be none to delete.
                let _ = call(&["tc", "-n", name, "qdisc", "delete", "dev", DEVICE, "root"]);
            }
        }
        Ok(())
    }

    /// What runs a program in the sender's namespace, and in the receiver's.
    pub(super) fn prefixes(&self) -> [Vec<String>; 2] {
        self.names.each_ref().map(|name| {
            let words = ["ip", "netns", "exec", name];
            words.map(str::to_owned).to_vec()
        })
    }

    /// Where the receiver listens.
    pub(super) fn listen() -> String {
        format!("{}:0", ADDRESSES[1])
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            // The first may be all there is, if making the second failed.
            let _ = call(&["ip", "netns", "delete", name]);
        }
    }
}

/// The words for `tc`.
struct Shape {
    rate: String,
    burst: String,
    limit: String,
}

impl Shape {
    /// Of a rate in bits a second.
    ///
    /// The burst is what passes at once after a pause: 1 ms at the rate, which outlasts a late timer
    /// and lets whole segments of 64 KiB through from 0.5 Gbit/s on (the kernel cuts them up below),
    /// but two full packets at least, or none would ever pass. What fits the burst takes no time to be
    /// sent on a link that was idle, unlike on a real one. The queue is as long as the relay's:
    /// 20 ms at the rate, at least 32 KiB.
    fn of(rate: f64) -> Self {
        const PACKET: f64 = 1514.0;
        let bytes = rate / 8.0;
        Self {
            rate: format!("{rate:.0}bit"),
            burst: format!("{:.0}b", (bytes * 1e-3).max(2.0 * PACKET)),
            limit: format!("{:.0}b", (bytes * 20e-3).max(32.0 * 1024.0)),
        }
    }
}

/// Runs a command to its end.
fn call(words: &[&str]) -> Result<(), Failure> {
    let [program, arguments @ ..] = words else {
        return Ok(());
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        // An interrupt that reaches all of a terminal's processes must not end the cleaning up.
        .process_group(0)
        .output()
        .map_err(|error| Failure::of(program, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Error(format!(
        "`{}` failed: {}",
        words.join(" "),
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_lets_a_packet_through() {
        let slow = Shape::of(1e5);
        assert_eq!(
            (&*slow.rate, &*slow.burst, &*slow.limit),
            ("100000bit", "3028b", "32768b")
        );
        let fast = Shape::of(1e9);
        assert_eq!((&*fast.burst, &*fast.limit), ("125000b", "2500000b"));
    }
}
