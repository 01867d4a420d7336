//! What quinn is told.

use std::io;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ServerConfig, TransportConfig, ValidationTokenConfig, crypto};
use tokio_rustls::rustls;

use crate::transport::tls::MAX_HANDSHAKES;

/// The protocol within QUIC (RFC 7301): a session on each stream in both directions. Not that of TLS over TCP, so that a
/// peer with streams of another use is told apart before a byte of them comes.
const ALPN: &[u8] = b"tautline-quic/2";

/// Connections that have begun and wait for room among the handshakes, a packet each; more are not answered. Arbitrary.
const MOST_WAITING: usize = 4 * MAX_HANDSHAKES;
/// What those may have sent besides, all together: a client has one or two packets to send before it is answered.
const WAITING_LEN: u64 = 4 << 20;

/// What waits to be read of each stream, at most, bytes: quinn's own default, 100 ms at 100 Mbit/s.
const STREAM_WINDOW: u32 = 1_250_000;
/// .. of all streams together, once the first has shaken hands; one stream's before. Lanes that are held up beyond that hold up
/// the others. Arbitrary.
pub(super) const LANES_WINDOW: u32 = 4 * STREAM_WINDOW;

/// What a connection may take of memory, and when it is over, is for the session to say. The peer may open so many streams.
fn transport(streams: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        // Heartbeats notice a peer that has vanished, and keep ways through address translators open.
        .max_idle_timeout(None)
        .max_concurrent_uni_streams(0_u8.into())
        .max_concurrent_bidi_streams(streams.into())
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(STREAM_WINDOW.into())
        .datagram_receive_buffer_size(None);
    transport
}

/// How to connect, with the certificates and roots of `tls`; the peer may begin so many lanes.
pub(super) fn client(tls: &rustls::ClientConfig, lanes: u32) -> io::Result<ClientConfig> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport(lanes)));
    Ok(config)
}

/// How to listen, with the certificates and roots of `tls`; a peer may begin so many lanes besides the first.
pub(super) fn server(tls: &rustls::ServerConfig, lanes: u32) -> io::Result<ServerConfig> {
    let transport = transport(lanes + 1);
    let mut config = ServerConfig::with_crypto(server_crypto(tls)?);
    config
        .transport_config(Arc::new(transport))
        .max_incoming(MOST_WAITING)
        .incoming_buffer_size(WAITING_LEN)
        .incoming_buffer_size_total(WAITING_LEN);
    // Clients keep nothing from one connection to the next.
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(0);
    config.validation_token_config(tokens);
    Ok(config)
}

/// The part of [`server`] that is renewed with the certificates.
pub(super) fn server_crypto(
    tls: &rustls::ServerConfig,
) -> io::Result<Arc<dyn crypto::ServerConfig>> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    Ok(Arc::new(tls))
}
