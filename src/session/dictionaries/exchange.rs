//! The session's part in what is said of dictionaries.

use core::time::Duration;

use super::DictionaryWork;
use super::job::Work;
use crate::control::LinkRate;
use crate::session::{Event, Session};
use crate::units::{Time, saturating_nanos};
use crate::wire::{Control, DictionaryNews, WireError};

/// Pieces of a dictionary look again after so long whether the link is idle: at the earliest, and where its rate is
/// not known, or what waits has been read wrong. Arbitrary: few looks, and a dictionary has time.
const LEAST_PIECE_WAIT: Duration = Duration::from_millis(1);
const PIECE_WAIT: Duration = Duration::from_millis(50);

impl Session {
    pub(in crate::session) fn take_dictionary_work(
        &mut self,
        now: Time,
        work: DictionaryWork,
        elapsed: Duration,
    ) -> Result<(), WireError> {
        let own = &mut self.sender.dictionaries;
        match work.0 {
            Work::Trained { class, trained } => {
                own.on_trained(now, class, trained, saturating_nanos(elapsed));
            }
            Work::Packed {
                dictionary,
                codec,
                wire,
            } => own.on_packed(dictionary, codec, wire),
            Work::Unpacked { number, result } => {
                self.receiver.dictionaries.on_unpacked(number, result)?;
            }
        }
        Ok(())
    }

    pub(in crate::session) fn put_dictionary_answers(&mut self) {
        while let Some(answer) = self.receiver.dictionaries.next_answer() {
            self.put_control(&Control::DictionaryAnswer(answer));
        }
    }

    /// Says what there is to say of dictionaries; their bytes go while the link has nothing else to do.
    pub(in crate::session) fn put_dictionary_frames(&mut self, now: Time) {
        self.sender.piece_at = None;
        if !self.sender.dictionaries.has_frames() {
            return;
        }
        // A block that is being encoded may still need what is to be retired.
        if self.sender.is_encoding() {
            return;
        }
        loop {
            let backlog = self.sender.link_backlog(now, &self.path);
            let is_idle = backlog == 0 && self.sender.is_idle();
            let Some(frame) = self.sender.dictionaries.next_frame(is_idle) else {
                // What waits for other reasons is followed by a look of its own.
                if self.sender.dictionaries.has_pieces() && backlog > 0 {
                    self.sender.piece_at = Some(self.idle_at(now, backlog));
                }
                return;
            };
            if matches!(frame.what, DictionaryNews::Retire) {
                self.sender.forget_dictionary(frame.number);
            }
            self.put_control(&Control::Dictionary(frame));
        }
    }

    /// When the link will have carried what it has.
    fn idle_at(&self, now: Time, backlog: u64) -> Time {
        let wait = match self.path.known.link.rate() {
            LinkRate::About(rate) => Duration::from_nanos(rate.nanos_for(backlog as f64) as u64),
            LinkRate::AtLeast(_) | LinkRate::Unknown => PIECE_WAIT,
        };
        now + wait.clamp(LEAST_PIECE_WAIT, PIECE_WAIT)
    }

    pub(in crate::session) fn take_dictionary_events(&mut self) {
        let received = core::iter::from_fn(|| self.receiver.dictionaries.poll_event());
        let own = core::iter::from_fn(|| self.sender.dictionaries.poll_event());
        self.events
            .extend(received.chain(own).map(Event::Dictionary));
    }
}
