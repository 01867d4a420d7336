//! Messages that have come from their senders, told of in runs.

use tokio::io::{AsyncRead, AsyncWrite};

use super::Driver;
use crate::session::MessageRun;
use crate::transport::Moment;
use crate::transport::outbox::Taken;
use crate::wire::StreamId;

/// Messages that one row tells of at most.
const MOST_IN_ROW: u64 = 1 << 19;

/// Messages of one stream, one after another, that no row has told of yet.
#[derive(Debug, Default)]
pub(super) struct QueuedRun {
    is_wanted: bool,
    /// When the first message of the commands came that are being taken.
    since: Option<Moment>,
    stream: Option<StreamId>,
    count: u64,
    bytes: u64,
}

impl<I: AsyncRead + AsyncWrite + Unpin + 'static> Driver<I> {
    /// Commands are about to be taken, the first of which came at `since`.
    pub(super) fn begin_queued(&mut self, since: Option<Moment>) {
        self.queued.is_wanted = self.events.wants_queued();
        self.queued.since = since;
    }

    /// The session has taken messages.
    pub(super) fn count_queued(&mut self, stream: StreamId, taken: Taken) {
        if !self.queued.is_wanted || taken.messages == 0 {
            return;
        }
        if self.queued.stream != Some(stream) {
            self.end_queued();
            self.queued.stream = Some(stream);
        }
        self.queued.count += taken.messages as u64;
        self.queued.bytes += taken.payload as u64;
    }

    /// Other messages come, or none.
    pub(super) fn end_queued(&mut self) {
        let Some(stream) = self.queued.stream.take() else {
            return;
        };
        let count = core::mem::take(&mut self.queued.count);
        let bytes = core::mem::take(&mut self.queued.bytes);
        let Some(sent) = self.session.messages_sent(stream) else {
            return;
        };
        let run = MessageRun {
            stream,
            first: sent.saturating_sub(count),
            count,
            bytes,
        };
        let since = self.queued.since;
        in_rows(run, |run| self.events.queued(run, since));
    }
}

/// Splits a run into such as rows can tell of; the first has all the bytes.
pub(super) fn in_rows(mut run: MessageRun, mut tell: impl FnMut(&MessageRun)) {
    while run.count > MOST_IN_ROW {
        let part = MessageRun {
            count: MOST_IN_ROW,
            ..run
        };
        tell(&part);
        run.first += MOST_IN_ROW;
        run.count -= MOST_IN_ROW;
        run.bytes = 0;
    }
    tell(&run);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_long_run_tell_of_all_of_it() {
        let run = MessageRun {
            stream: StreamId::new(4).expect("small"),
            first: 10,
            count: 2 * MOST_IN_ROW + 3,
            bytes: 99,
        };
        let (mut next, mut bytes) = (run.first, 0);
        in_rows(run, |part| {
            assert_eq!(part.first, next);
            assert!(part.count <= MOST_IN_ROW);
            next += part.count;
            bytes += part.bytes;
        });
        assert_eq!((next, bytes), (run.first + run.count, 99));
    }
}
