//! What a session and its streams have done, to be read.

use core::time::Duration;

use super::dictionaries::DictionaryStats;
use crate::codecs::Arm;
use crate::control::{ArmReport, BudgetRate, Reason, SocketSample};
use crate::few::push_few;
use crate::units::{BytesPerSec, CpuLoad};

/// What one arm has done on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmStats {
    /// Codec and level. Identity includes blocks that other arms could not make smaller.
    pub arm: Arm,
    /// Blocks that carried messages of the stream.
    pub blocks: u64,
    /// Messages.
    pub messages: u64,
    /// Plain bytes, record headers included.
    pub plain_bytes: u64,
    /// Bytes on the wire, headers and checksums included.
    pub wire_bytes: u64,
    /// Processor time spent encoding, ns, as far as the driver tells it apart ([`JobTime`](super::JobTime)).
    pub encode_nanos: u64,
}

/// What a stream has done.
#[derive(Clone, Debug, Default)]
pub struct StreamStats {
    /// Messages given to `send`.
    pub messages_sent: u64,
    /// Their bytes.
    pub payload_sent: u64,
    /// Messages that the peer has acknowledged; counted only in sessions that can go on over another connection.
    pub messages_delivered: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Their bytes.
    pub payload_received: u64,
    /// Payload bytes that wait to be sent.
    pub queued_bytes: u64,
    /// The arms that were used.
    pub arms: Vec<ArmStats>,
    /// Blocks that an arm could not make smaller, sent as they were.
    pub not_smaller: u64,
    /// Blocks sent as they were because the codec budget was exhausted.
    pub out_of_budget: u64,
    /// Blocks whose codec reported a failure, sent as they were.
    pub failed: u64,
    /// The latest choice and why it was made.
    pub latest: Option<(Arm, Reason)>,
    /// How long the latest block might have become, plain bytes, of what waited; `None` before the first.
    pub block_len: Option<usize>,
    /// How often a block was given another arm than the block before.
    pub switches: u64,
    /// Estimated time that the choices cost over the best arm's estimate at the time, summed over
    /// blocks. Policies that do not estimate leave it at zero.
    pub regret: Duration,
    /// What is known of each arm for a block like the next one, the cheapest first. Empty with
    /// policies that do not estimate.
    pub reports: Vec<ArmReport>,
}

impl SessionStats {
    /// Bytes that the connection holds in all, each part of which has a bound of its own
    /// ([`Limits::connection_memory`](super::Limits::connection_memory)): messages and blocks of both directions, histories, dictionaries.
    /// What it takes besides, some KiB and some hundred bytes for each stream, is not among them.
    pub fn memory(&self) -> u64 {
        let parts = [
            self.received_held,
            self.undelivered,
            self.queued,
            self.output,
            self.retained,
            self.history_sent,
            self.history_received,
            self.dictionaries.memory,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl StreamStats {
    /// Plain over wire bytes of all blocks sent, or `None` before the first.
    pub fn ratio(&self) -> Option<f64> {
        let plain: u64 = self.arms.iter().map(|arm| arm.plain_bytes).sum();
        let wire: u64 = self.arms.iter().map(|arm| arm.wire_bytes).sum();
        (wire > 0).then(|| plain as f64 / wire as f64)
    }

    pub(super) fn record(
        &mut self,
        arm: Arm,
        messages: u64,
        plain: u64,
        wire: u64,
        encode: Duration,
    ) {
        let known = self.arms.iter_mut().find(|stats| stats.arm == arm);
        let stats = if let Some(stats) = known {
            stats
        } else {
            push_few(
                &mut self.arms,
                ArmStats {
                    arm,
                    blocks: 0,
                    messages: 0,
                    plain_bytes: 0,
                    wire_bytes: 0,
                    encode_nanos: 0,
                },
            );
            let Some(stats) = self.arms.last_mut() else {
                return;
            };
            stats
        };
        stats.blocks += 1;
        stats.messages += messages;
        stats.plain_bytes += plain;
        stats.wire_bytes += wire;
        let encode = crate::units::saturating_nanos(encode);
        stats.encode_nanos = stats.encode_nanos.saturating_add(encode);
    }
}

/// What a session has done and knows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionStats {
    /// Blocks sent.
    pub blocks_sent: u64,
    /// Blocks received and delivered.
    pub blocks_received: u64,
    /// Blocks and control frames that the peer has not acknowledged yet.
    pub frames_unacked: u64,
    /// Bytes handed to the driver for writing.
    pub wire_sent: u64,
    /// Bytes of this side's hello among them.
    pub hello_sent: u64,
    /// Bytes received.
    pub wire_received: u64,
    /// Processor time spent encoding, ns, as far as the driver tells it apart ([`JobTime`](super::JobTime)).
    pub encode_nanos: u64,
    /// Time spent decoding, ns.
    pub decode_nanos: u64,
    /// Smoothed round trip.
    pub rtt: Option<Duration>,
    /// Shortest round trip of late.
    pub rtt_min: Option<Duration>,
    /// Rate at which the socket takes bytes.
    pub send_rate: Option<BytesPerSec>,
    /// Rate of the link.
    pub link_rate: Option<BytesPerSec>,
    /// What the system said of the socket last; `None` before it was asked.
    pub socket: Option<SocketSample>,
    /// Whether the socket takes no bytes for now.
    pub is_blocked: bool,
    /// Codec time granted to this session; `None` without a limit.
    pub budget: Option<BudgetRate>,
    /// The peer's processor load as it last said.
    pub peer_load: Option<CpuLoad>,
    /// Blocks encoded once more with other arms to learn about them, and the time that took, ns. It is
    /// not part of `encode_nanos`.
    pub shadows: u64,
    /// See `shadows`.
    pub shadow_nanos: u64,
    /// Memory held for histories of what was sent, and of what was received, bytes.
    pub history_sent: u64,
    /// Bytes of messages that were sent and wait for acknowledgement, to be sent again over another connection if need be,
    /// with about what it takes to keep them.
    pub retained: u64,
    /// See `history_sent`.
    pub history_received: u64,
    /// What was done with dictionaries.
    pub dictionaries: DictionaryStats,
    /// Memory that histories of what is sent may hold, and that the peer may have held here for what it sends.
    pub history_limit: u64,
    /// See `history_limit`.
    pub history_announced: u64,
    /// What was received and the application is not done with, messages of which only a part has come among it: payload
    /// bytes, and 32 for each message. Never more than `received_limit`.
    pub received_held: u64,
    /// The most that it has been.
    pub received_most: u64,
    /// [`Limits::connection_memory`](super::Limits::connection_memory).
    pub received_limit: u64,
    /// Payload bytes that wait to be sent, of all streams.
    pub queued: u64,
    /// Bytes that wait to be written.
    pub output: u64,
    /// Bytes of blocks that have come and are not delivered, on the wire and plain (the most that they may become, if that is not known).
    pub undelivered: u64,
    /// How often a stream of this side had to wait for credit of the connection, and how often the peer said that of one of its.
    pub credit_waits: u64,
    /// See `credit_waits`.
    pub peer_credit_waits: u64,
    /// How often nothing was read for a while because the peer's blocks took too long to decode
    /// ([`Limits::decode_time`](super::Limits::decode_time)).
    pub decode_pauses: u64,
    /// Reports of the peer that could not be true and were clamped or left out.
    pub absurd_reports: u64,
    /// Lanes that there are beside the first: over QUIC, streams of QUIC for streams in groups of their own (docs/quic.md). What is counted
    /// and held is that of all lanes together.
    pub further_lanes: u32,
}
