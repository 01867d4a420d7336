//! What the system knows of a connection's socket.

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::limits::Counted;
use crate::control::SocketSample;

/// What the system says of `io`: much of a TCP socket, the queue of a Unix socket, nothing of
/// other carriers. A sample costs a system call: 950 ns of TCP and 460 ns of a Unix socket in a
/// virtual machine on Linux 6.18, whether the socket is full or not (`what_a_sample_costs` below).
///
/// The carrier is asked by its type, so that a socket which the application has made itself is
/// known as well, and borrowed, so that it is open meanwhile.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn sample<I: 'static>(io: &I) -> SocketSample {
    use core::any::Any;
    use std::os::fd::AsFd;

    use tokio::net::{TcpStream, UnixStream};

    let io: &dyn Any = io;
    let accepted = || Some(io.downcast_ref::<Counted<UnixStream>>()?.socket());
    if let Some(stream) = io.downcast_ref::<TcpStream>() {
        linux::sample_tcp(stream.as_fd())
    } else if let Some(stream) = io.downcast_ref::<UnixStream>().or_else(accepted) {
        linux::sample_unix(stream.as_fd())
    } else if let Some(stream) = below(io) {
        linux::sample_tcp(stream.as_fd())
    } else {
        sample_other(io)
    }
}

/// Has the system take no more than about `bytes` before they are on their way, if it can do that.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn limit_unsent<I: 'static>(io: &I, bytes: u32) {
    let io: &dyn core::any::Any = io;
    if let Some(stream) = io.downcast_ref().or_else(|| below(io)) {
        // A socket that refuses stays as it was.
        let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes);
    } else {
        limit_other(io, bytes);
    }
}

/// What a carrier knows by itself.
#[cfg(feature = "quic")]
fn sample_other(io: &dyn core::any::Any) -> SocketSample {
    io.downcast_ref()
        .map_or_else(SocketSample::default, super::quic::QuicCarrier::sample)
}

#[cfg(not(feature = "quic"))]
fn sample_other(_: &dyn core::any::Any) -> SocketSample {
    SocketSample::default()
}

/// Has a carrier that limits itself do so.
#[cfg(feature = "quic")]
fn limit_other(io: &dyn core::any::Any, bytes: u32) {
    if let Some(carrier) = io.downcast_ref::<super::quic::QuicCarrier>() {
        carrier.limit_unsent(bytes);
    }
}

#[cfg(not(feature = "quic"))]
const fn limit_other(_: &dyn core::any::Any, _: u32) {}

/// The TCP socket below a carrier that is counted, or that encrypts.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn below(io: &dyn core::any::Any) -> Option<&tokio::net::TcpStream> {
    if let Some(counted) = io.downcast_ref::<Counted<_>>() {
        return Some(counted.socket());
    }
    #[cfg(feature = "tls")]
    if let Some(carrier) = io.downcast_ref::<super::tls::TlsCarrier>() {
        return Some(carrier.socket());
    }
    None
}

/// Other systems take what they take.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn limit_unsent<I: 'static>(io: &I, bytes: u32) {
    limit_other(io, bytes);
}

/// What the system says of `io`: nothing that this library knows how to ask.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn sample<I: 'static>(io: &I) -> SocketSample {
    sample_other(io)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    #![expect(
        unsafe_code,
        reason = "no crate asks for TCP_INFO and SIOCOUTQ safely and for all that the kernel gives"
    )]

    use core::ffi::c_int;
    use core::time::Duration;
    use std::os::fd::{AsRawFd, BorrowedFd};

    use crate::control::SocketSample;
    use crate::units::BytesPerSec;

    /// `struct tcp_info` up to its last part of interest (`tcpi_rwnd_limited`). It has only ever grown
    /// at its end; the kernel writes as much as it has or as there is room for, and says how much.
    const TCP_INFO_LEN: usize = 184;

    /// A kernel that does not answer (the connection is gone, say) knows nothing.
    pub(super) fn sample_tcp(fd: BorrowedFd<'_>) -> SocketSample {
        let mut info = [0_u8; TCP_INFO_LEN];
        let mut len = TCP_INFO_LEN as libc::socklen_t;
        // SAFETY: `fd` is open as long as it is borrowed; the kernel writes at most `len` bytes
        // behind the first pointer, which is the length of `info`, and a length behind the second.
        let result = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let written = if result == 0 { len as usize } else { 0 };
        parse_tcp_info(info.get(..written).unwrap_or(&info))
    }

    pub(super) fn sample_unix(fd: BorrowedFd<'_>) -> SocketSample {
        let mut queued: c_int = 0;
        // SAFETY: `fd` is open as long as it is borrowed; this request (SIOCOUTQ is its name for
        // sockets) writes an int behind the pointer, which is to one.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
        SocketSample {
            unsent: (result == 0).then(|| u64::try_from(queued).unwrap_or(0)),
            ..SocketSample::default()
        }
    }

    /// Reads a `struct tcp_info` as `linux/tcp.h` lays it out. Parts that an older kernel's shorter
    /// one does not have are missing.
    pub(super) fn parse_tcp_info(info: &[u8]) -> SocketSample {
        let u32_at = |at| chunk(info, at).map(|bytes| u32::from_ne_bytes(*bytes));
        let u64_at = |at| chunk(info, at).map(|bytes| u64::from_ne_bytes(*bytes));
        let micros = |value: u32| Duration::from_micros(value.into());
        // The first of the byte's bit fields: these begin at the end that comes first in memory.
        let app_limited = if cfg!(target_endian = "little") {
            0x01
        } else {
            0x80
        };
        SocketSample {
            app_limited: info.get(7).is_some_and(|bits| bits & app_limited != 0),
            // Zero, and all ones in the minimum, stand for "not measured yet".
            rtt: u32_at(68).filter(|&rtt| rtt > 0).map(micros),
            acknowledged: u64_at(120),
            unsent: u32_at(144).map(u64::from),
            min_rtt: u32_at(148).filter(|&rtt| rtt != u32::MAX).map(micros),
            delivery_rate: u64_at(160).and_then(|rate| BytesPerSec::new(rate as f64)),
            busy: u64_at(168).map(Duration::from_micros),
            rwnd_limited: u64_at(176).map(Duration::from_micros),
        }
    }

    fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
        bytes.get(at..)?.first_chunk()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn of_a_carrier_in_memory_nothing_is_known() {
        let (mut io, _peer) = tokio::io::duplex(1000);
        io.write_all(b"unread").await.expect("room");
        assert_eq!(sample(&io), SocketSample::default());
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod linux_tests {
    use core::time::Duration;
    use std::io;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream, UnixStream};

    use super::linux::parse_tcp_info;
    use super::*;
    use crate::transport::clock::Clock;
    use crate::transport::socket;
    use crate::units::BytesPerSec;

    async fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (near, (far, _)) = (near.expect("a connection"), far.expect("a connection"));
        for stream in [&near, &far] {
            socket::configure(stream).expect("options");
        }
        (near, far)
    }

    /// Writes until the socket takes no more; how much it took.
    fn fill(write: impl Fn(&[u8]) -> io::Result<usize>) -> u64 {
        let mut total = 0;
        loop {
            match write(&[7; 4096]) {
                Ok(written) => total += written as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return total,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn skip(from: &mut (impl AsyncReadExt + Unpin), bytes: u64) {
        let read = tokio::io::copy(&mut from.take(bytes), &mut tokio::io::sink()).await;
        assert_eq!(read.expect("bytes"), bytes);
    }

    #[tokio::test]
    async fn a_socket_takes_no_more_than_it_is_told() {
        let (near, _far) = tcp_pair().await;
        let limit = || socket2::SockRef::from(&near).tcp_notsent_lowat();
        socket::configure(&near).expect("a socket");
        assert_eq!(limit().expect("an answer"), crate::session::UNSENT);
        limit_unsent(&near, 40_000);
        assert_eq!(limit().expect("an answer"), 40_000);
    }

    #[tokio::test]
    async fn what_a_tcp_peer_does_not_read_stays_unsent() {
        let (near, mut far) = tcp_pair().await;
        near.writable().await.expect("room");
        let before = sample(&near);
        assert_eq!(before.unsent, Some(0));
        let total = fill(|bytes| near.try_write(bytes));
        let full = sample(&near);
        let unsent = full.unsent.expect("known of TCP");
        let acknowledged = full.acknowledged.expect("known of TCP");
        assert!(unsent > 0 && unsent <= total, "{full:?} of {total}");
        // The opening counts as a byte.
        assert!(acknowledged + unsent <= total + 1, "{full:?} of {total}");
        assert!(Some(acknowledged) >= before.acknowledged);

        skip(&mut far, total).await;
        let read = async {
            loop {
                let after = sample(&near);
                if after.acknowledged >= Some(total) {
                    return after;
                }
                // The last acknowledgement may be delayed.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let after = tokio::time::timeout(Duration::from_secs(60), read)
            .await
            .expect("all that was read is acknowledged");
        assert_eq!(after.unsent, Some(0));
        assert!(after.rtt.is_some() && after.min_rtt.is_some(), "{after:?}");
        assert!(after.delivery_rate.is_some(), "{after:?}");
        assert!(after.busy >= after.rwnd_limited, "{after:?}");
    }

    #[tokio::test]
    async fn a_limit_keeps_what_is_unsent_small() {
        const LIMIT: u32 = 16 << 10;
        let mut unsent = Vec::new();
        for limit in [None, Some(LIMIT)] {
            let (near, _far) = tcp_pair().await;
            near.writable().await.expect("room");
            if let Some(limit) = limit {
                limit_unsent(&near, limit);
            }
            fill(|bytes| near.try_write(bytes));
            unsent.push(sample(&near).unsent.expect("known of TCP"));
        }
        // The kernel looks between its buffers, which may be as long as a packet can be.
        assert!(unsent[1] <= u64::from(LIMIT) + (64 << 10), "{unsent:?}");
        assert!(unsent[1] < unsent[0], "{unsent:?}");
    }

    #[tokio::test]
    async fn what_a_unix_peer_does_not_read_stays_unsent() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        near.writable().await.expect("room");
        assert_eq!(sample(&near).unsent, Some(0));
        let total = fill(|bytes| near.try_write(bytes));
        let full = sample(&near);
        assert!(full.unsent >= Some(total), "{full:?} of {total}");
        assert_eq!(full.acknowledged, None);

        skip(&mut far, total).await;
        assert_eq!(sample(&near).unsent, Some(0));
    }

    #[test]
    fn a_kernel_that_knows_less_leaves_the_rest_out() {
        let mut info = [0; 200];
        info[7] = u8::MAX;
        info[68..72].copy_from_slice(&1500_u32.to_ne_bytes());
        info[120..128].copy_from_slice(&(5_u64 << 32).to_ne_bytes());
        info[144..148].copy_from_slice(&3000_u32.to_ne_bytes());
        info[148..152].copy_from_slice(&900_u32.to_ne_bytes());
        info[160..168].copy_from_slice(&125_000_u64.to_ne_bytes());
        info[168..176].copy_from_slice(&70_u64.to_ne_bytes());
        info[176..184].copy_from_slice(&60_u64.to_ne_bytes());
        let whole = SocketSample {
            unsent: Some(3000),
            acknowledged: Some(5 << 32),
            delivery_rate: BytesPerSec::new(125_000.0),
            app_limited: true,
            min_rtt: Some(Duration::from_micros(900)),
            rtt: Some(Duration::from_micros(1500)),
            rwnd_limited: Some(Duration::from_micros(60)),
            busy: Some(Duration::from_micros(70)),
        };
        assert_eq!(parse_tcp_info(&info), whole);
        // Linux 4.9, 4.1 and 2.6; a part that is cut in two is missing.
        let v4_9 = SocketSample {
            rwnd_limited: None,
            busy: None,
            ..whole
        };
        assert_eq!(parse_tcp_info(&info[..168]), v4_9);
        let v4_1 = SocketSample {
            unsent: None,
            min_rtt: None,
            delivery_rate: None,
            ..v4_9
        };
        assert_eq!(parse_tcp_info(&info[..136]), v4_1);
        assert_eq!(parse_tcp_info(&info[..147]), v4_1);
        let v2_6 = SocketSample {
            acknowledged: None,
            ..v4_1
        };
        assert_eq!(parse_tcp_info(&info[..104]), v2_6);
        assert_eq!(parse_tcp_info(&[]), SocketSample::default());
    }

    #[test]
    fn what_is_not_measured_yet_is_missing() {
        let mut info = [0; 200];
        info[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let sample = parse_tcp_info(&info);
        assert_eq!((sample.rtt, sample.min_rtt), (None, None));
        assert_eq!(sample.delivery_rate, None);
        assert_eq!((sample.unsent, sample.acknowledged), (Some(0), Some(0)));
    }

    /// `cargo test --lib what_a_sample_costs -- --ignored --nocapture`
    #[tokio::test]
    #[ignore = "measures and prints"]
    async fn what_a_sample_costs() {
        const COUNT: u32 = 1_000_000;
        let (tcp, far) = tcp_pair().await;
        let (unix, _far) = UnixStream::pair().expect("a pair");
        tcp.writable().await.expect("room");
        unix.writable().await.expect("room");
        let clock = Clock::start();
        let time = |name: &str, sample: &dyn Fn() -> SocketSample| {
            let started = clock.now();
            for _ in 0..COUNT {
                core::hint::black_box(sample());
            }
            let elapsed = clock.now().saturating_since(started);
            println!("{name}: {:?}", elapsed / COUNT);
        };
        time("TCP, idle", &|| sample(&tcp));
        fill(|bytes| tcp.try_write(bytes));
        time("TCP, full", &|| sample(&tcp));
        time("Unix, empty", &|| sample(&unix));
        println!("Unix, one byte unread: {:?}", {
            unix.try_write(b"x").expect("room");
            sample(&unix).unsent
        });
        let total = fill(|bytes| unix.try_write(bytes));
        println!(
            "Unix, {total} more bytes unread: {:?}",
            sample(&unix).unsent
        );
        time("Unix, full", &|| sample(&unix));
        drop(far);
    }
}
