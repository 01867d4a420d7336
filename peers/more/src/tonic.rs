//! `tonic`: gRPC, one call that streams messages of one field of bytes to the server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::uri::PathAndQuery;
use tautline_peers::{
    Contestant, Failure, Family, Inbox, Kind, Messages, Receiver, Sender, Task, listen, now,
};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::server::ClientStreamingService;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

pub(crate) const FAMILY: Family = Family {
    name: "tonic",
    settings: &["none", "gzip", "zstd"],
    make: |setting| Grpc::named(setting).map(|it| Box::new(it) as _),
    meaning: "gRPC (tonic), one call that streams to the server; its compression of each message",
};

const PATH: &str = "/peers.Peers/Send";

/// What `message Packet { bytes payload = 1; }` would become.
#[derive(Clone, PartialEq, prost::Message)]
struct Packet {
    #[prost(bytes = "bytes", tag = "1")]
    payload: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Grpc {
    encoding: Option<CompressionEncoding>,
}

impl Grpc {
    fn named(setting: &str) -> Option<Self> {
        let encoding = match setting {
            "none" => None,
            "gzip" => Some(CompressionEncoding::Gzip),
            "zstd" => Some(CompressionEncoding::Zstd),
            _ => return None,
        };
        Some(Self { encoding })
    }
}

impl Contestant for Grpc {
    fn kind(&self) -> Kind {
        Kind::Peer
    }

    fn receiver(&self, _longest: usize) -> Task<Arc<dyn Receiver>> {
        let encoding = self.encoding;
        Box::pin(async move {
            let (listener, address) = listen().await?;
            Ok(Arc::new(GrpcReceiver {
                encoding,
                listener,
                address,
            }) as _)
        })
    }

    fn sender(&self, _longest: usize) -> Task<Arc<dyn Sender>> {
        let sender = *self;
        Box::pin(async move { Ok(Arc::new(sender) as _) })
    }
}

impl Sender for Grpc {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let endpoint = Endpoint::from_shared(format!("http://{to}"))?;
            let channel = endpoint.connect().await?;
            let mut client =
                tonic::client::Grpc::new(channel).max_encoding_message_size(usize::MAX);
            if let Some(encoding) = self.encoding {
                client = client.send_compressed(encoding);
            }
            client.ready().await?;
            let packets = (0..messages.len()).map(move |number| Packet {
                payload: messages[number].clone(),
            });
            let began = now();
            client
                .client_streaming(
                    Request::new(stream::iter(packets)),
                    PathAndQuery::from_static(PATH),
                    ProstCodec::<Packet, ()>::default(),
                )
                .await?;
            Ok(began)
        })
    }
}

struct GrpcReceiver {
    encoding: Option<CompressionEncoding>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Receiver for GrpcReceiver {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn receive(self: Arc<Self>, inbox: Inbox) -> Task<Inbox> {
        Box::pin(async move {
            let (socket, _) = self.listener.accept().await?;
            socket.set_nodelay(true)?;
            let (give, take) = oneshot::channel();
            let ended = Arc::new(Notify::new());
            let call = Call {
                inbox: Some(inbox),
                give: Some(give),
                ended: Arc::clone(&ended),
            };
            let service = Peers {
                encoding: self.encoding,
                call: Arc::new(Mutex::new(Some(call))),
            };
            // No other connection comes; this one ends with the call.
            let sockets = stream::iter([Ok::<_, Infallible>(socket)]).chain(stream::pending());
            Server::builder()
                .serve_with_incoming_shutdown(service, sockets, ended.notified())
                .await?;
            take.await
                .map_err(|_| Failure::Error("the sender called nothing".to_owned()))?
        })
    }
}

/// What `service Peers { rpc Send(stream Packet) returns (google.protobuf.Empty); }` would become.
#[derive(Clone)]
struct Peers {
    encoding: Option<CompressionEncoding>,
    call: Arc<Mutex<Option<Call>>>,
}

impl Service<http::Request<Body>> for Peers {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let call = self
            .call
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let encoding = self.encoding;
        Box::pin(async move {
            let Some(call) = call else {
                return Ok(Status::resource_exhausted("one call only").into_http());
            };
            let codec = ProstCodec::<(), Packet>::default();
            let mut grpc = tonic::server::Grpc::new(codec).max_decoding_message_size(usize::MAX);
            if let Some(encoding) = encoding {
                grpc = grpc.accept_compressed(encoding);
            }
            Ok(grpc.client_streaming(call, request).await)
        })
    }
}

/// The one call of a connection.
struct Call {
    inbox: Option<Inbox>,
    give: Option<oneshot::Sender<Result<Inbox, Failure>>>,
    ended: Arc<Notify>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.ended.notify_one();
    }
}

impl ClientStreamingService<Packet> for Call {
    type Response = ();
    type Future = Pin<Box<dyn Future<Output = Result<Response<()>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Packet>>) -> Self::Future {
        let (inbox, give) = (self.inbox.take(), self.give.take());
        Box::pin(async move {
            let (Some(inbox), Some(give)) = (inbox, give) else {
                return Err(Status::internal("called twice"));
            };
            // Nobody takes it where the pass has been given up.
            let _ = give.send(deliver(inbox, request.into_inner()).await);
            Ok(Response::new(()))
        })
    }
}

async fn deliver(mut inbox: Inbox, mut packets: Streaming<Packet>) -> Result<Inbox, Failure> {
    while let Some(packet) = packets.message().await? {
        inbox.deliver(&packet.payload)?;
    }
    Ok(inbox)
}
