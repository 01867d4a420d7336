//! `tonic`: gRPC, one call that streams messages of one field of bytes to the server, or there and back.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::uri::PathAndQuery;
use tautline_peers::{
    Contestant, Failure, Family, Inbox, Kind, Messages, Receiver, Sender, Task, Trips, accept,
    gone, listen, now,
};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tonic::body::Body;
use tonic::client::Grpc as Client;
use tonic::codec::{Codec, CompressionEncoding};
use tonic::server::{ClientStreamingService, StreamingService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

pub(crate) const FAMILY: Family = Family {
    name: "tonic",
    settings: &["none", "gzip", "zstd"],
    make: |setting| Grpc::named(setting).map(|it| Box::new(it) as _),
    meaning: "gRPC (tonic), one call that streams to the server, or both ways; its compression of each message",
};

const SEND: &str = "/peers.Peers/Send";
const ECHO: &str = "/peers.Peers/Echo";

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

impl Grpc {
    async fn connect(self, to: SocketAddr) -> Result<Client<Channel>, Failure> {
        let endpoint = Endpoint::from_shared(format!("http://{to}"))?;
        let mut client = Client::new(endpoint.connect().await?)
            .max_encoding_message_size(usize::MAX)
            .max_decoding_message_size(usize::MAX);
        if let Some(encoding) = self.encoding {
            client = client.send_compressed(encoding).accept_compressed(encoding);
        }
        client.ready().await?;
        Ok(client)
    }
}

impl Sender for Grpc {
    fn send(self: Arc<Self>, to: SocketAddr, messages: Messages) -> Task<Instant> {
        Box::pin(async move {
            let mut client = self.connect(to).await?;
            let packets = (0..messages.len()).map(move |number| Packet {
                payload: messages[number].clone(),
            });
            let began = now();
            client
                .client_streaming(
                    Request::new(stream::iter(packets)),
                    PathAndQuery::from_static(SEND),
                    ProstCodec::<Packet, ()>::default(),
                )
                .await?;
            Ok(began)
        })
    }

    fn ask(self: Arc<Self>, to: SocketAddr, mut trips: Trips) -> Task<Trips> {
        Box::pin(async move {
            let mut client = self.connect(to).await?;
            let (give, take) = mpsc::channel(1);
            let packets = stream::unfold(take, |mut take| async {
                let payload = take.recv().await?;
                Some((Packet { payload }, take))
            });
            let answers = client
                .streaming(
                    Request::new(packets),
                    PathAndQuery::from_static(ECHO),
                    ProstCodec::<Packet, Packet>::default(),
                )
                .await?;
            let mut answers = answers.into_inner();
            while let Some(message) = trips.ask() {
                give.send(message).await?;
                let answer = answers.message().await?.ok_or_else(gone)?;
                trips.answered(&answer.payload)?;
            }
            drop(give);
            // Until the server has seen the end.
            while answers.message().await?.is_some() {}
            Ok(trips)
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
            let (give, take) = oneshot::channel();
            self.serve(Some((inbox, give))).await?;
            take.await
                .map_err(|_| Failure::Error("the sender called nothing".to_owned()))?
        })
    }

    fn echo(self: Arc<Self>, _count: usize) -> Task<()> {
        Box::pin(async move { self.serve(None).await })
    }
}

impl GrpcReceiver {
    /// One connection and its one call: one that delivers, or one that has all sent back.
    async fn serve(&self, delivery: Option<Delivery>) -> Result<(), Failure> {
        let socket = accept(&self.listener).await?;
        let ended = Arc::new(Notify::new());
        let call = Call {
            delivery,
            ended: Arc::clone(&ended),
        };
        let service = Peers {
            encoding: self.encoding,
            call: Arc::new(Mutex::new(Some(call))),
        };
        // No other connection comes; this one ends with the call.
        let sockets = stream::iter([Ok::<_, Infallible>(socket)]).chain(stream::pending());
        Ok(Server::builder()
            .serve_with_incoming_shutdown(service, sockets, ended.notified())
            .await?)
    }
}

/// To be filled, and where it goes then.
type Delivery = (Inbox, oneshot::Sender<Result<Inbox, Failure>>);

/// What `service Peers { rpc Send(stream Packet) returns (google.protobuf.Empty); rpc Echo(stream Packet)
/// returns (stream Packet); }` would become.
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
            Ok(if request.uri().path() == ECHO {
                let codec = ProstCodec::<Packet, Packet>::default();
                served(codec, encoding).streaming(call, request).await
            } else {
                let codec = ProstCodec::<(), Packet>::default();
                served(codec, encoding)
                    .client_streaming(call, request)
                    .await
            })
        })
    }
}

fn served<C: Codec>(codec: C, encoding: Option<CompressionEncoding>) -> tonic::server::Grpc<C> {
    let grpc = tonic::server::Grpc::new(codec)
        .max_encoding_message_size(usize::MAX)
        .max_decoding_message_size(usize::MAX);
    match encoding {
        Some(encoding) => grpc.accept_compressed(encoding).send_compressed(encoding),
        None => grpc,
    }
}

/// The one call of a connection.
struct Call {
    delivery: Option<Delivery>,
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
        let delivery = self.delivery.take();
        Box::pin(async move {
            let Some((inbox, give)) = delivery else {
                return Err(Status::unimplemented("nothing is to be delivered"));
            };
            // Nobody takes it where the pass has been given up.
            let _ = give.send(deliver(inbox, request.into_inner()).await);
            Ok(Response::new(()))
        })
    }
}

impl StreamingService<Packet> for Call {
    type Response = Packet;
    type ResponseStream = Streaming<Packet>;
    type Future = Ready<Result<Response<Streaming<Packet>>, Status>>;

    /// What comes is what goes back.
    fn call(&mut self, request: Request<Streaming<Packet>>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

async fn deliver(mut inbox: Inbox, mut packets: Streaming<Packet>) -> Result<Inbox, Failure> {
    while let Some(packet) = packets.message().await? {
        inbox.deliver(&packet.payload)?;
    }
    Ok(inbox)
}
