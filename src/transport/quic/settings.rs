//! What quinn is told.

use std::io;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ServerConfig, TransportConfig, ValidationTokenConfig, crypto};
use tokio_rustls::rustls;

use crate::transport::tls::MAX_HANDSHAKES;

/// The protocol within QUIC (RFC 7301): one session on one stream in both directions. Not that of TLS over TCP, so that a
/// peer with streams of another use is told apart before a byte of them comes.
const ALPN: &[u8] = b"tautline-quic/1";

/// Connections that have begun and wait for room among the handshakes, a packet each; more are not answered. Arbitrary.
const MOST_WAITING: usize = 4 * MAX_HANDSHAKES;
/// What those may have sent besides, all together: a client has one or two packets to send before it is answered.
const WAITING_LEN: u64 = 4 << 20;

/// What a connection may take of memory, and when it is over, is for the session to say.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        // Heartbeats notice a peer that has vanished, and keep ways through address translators open.
        .max_idle_timeout(None)
        .max_concurrent_uni_streams(0_u8.into())
        .max_concurrent_bidi_streams(0_u8.into())
        .datagram_receive_buffer_size(None);
    transport
}

/// How to connect, with the certificates and roots of `tls`.
pub(super) fn client(tls: &rustls::ClientConfig) -> io::Result<ClientConfig> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport()));
    Ok(config)
}

/// How to listen, with the certificates and roots of `tls`.
pub(super) fn server(tls: &rustls::ServerConfig) -> io::Result<ServerConfig> {
    let mut transport = transport();
    transport.max_concurrent_bidi_streams(1_u8.into());
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
