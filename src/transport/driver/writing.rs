//! Output goes to the socket, as much as a turn has time for.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::IoSlice;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{AT_ONCE, Driver, FLUSH_TIMEOUT, State};

/// Pieces of output given to one write.
const MAX_SLICES: usize = 16;
/// .. and bytes, but for one piece that is longer: the system takes some 50 µs to copy so many. Arbitrary.
const MAX_WRITE: usize = 256 << 10;

impl<I: AsyncRead + AsyncWrite + Unpin + 'static> Driver<I> {
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        if self.session.output_len() == 0 && self.wakers.is_flushed {
            return any;
        }
        while self.session.output_len() > 0 {
            let Some(io) = &mut self.io else {
                // What a session says that has ended without a connection.
                self.session
                    .handle_written(self.now, self.session.output_len());
                return true;
            };
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let filled = self.session.fill_slices(&mut slices);
            let filled = within(&slices[..filled], MAX_WRITE);
            // What is written may be at the peer before the call returns.
            let began = self.clock.now();
            self.now = began;
            match Pin::new(io).poll_write_vectored(cx, &slices[..filled]) {
                Poll::Pending => {
                    self.session.handle_blocked(self.now);
                    // It may wait for something to read, with this waker.
                    self.wakers.ring();
                    break;
                }
                Poll::Ready(Ok(written)) if written > 0 => {
                    self.session.handle_written(began, written);
                    self.moved_since = self.moved_since.saturating_add(AT_ONCE + written);
                    self.wakers.is_flushed = false;
                    any = true;
                    if let State::Flushing { until } = &mut self.state {
                        *until = began + FLUSH_TIMEOUT;
                    }
                    if self.session.output_len() == 0 {
                        break;
                    }
                    self.read_clock();
                    if self.is_turn_over() {
                        break;
                    }
                }
                Poll::Ready(_) => {
                    // The socket takes nothing more; its peer may still have said why.
                    let lost = self.session.output_len();
                    if self.session.is_resumable() {
                        self.session.handle_eof();
                        return true;
                    }
                    self.session.handle_written(self.now, lost);
                    if self.state != State::Open {
                        self.input_ended = true;
                    }
                    if self.input_ended {
                        self.session.handle_eof();
                    }
                    return true;
                }
            }
        }
        if let (Some(io), 0) = (&mut self.io, self.session.output_len()) {
            // A carrier may hold back what it took; one that fails to pass it on shows when it is read from.
            self.wakers.is_flushed = Pin::new(io).poll_flush(cx).is_ready();
            if !self.wakers.is_flushed {
                self.wakers.ring();
            }
        }
        any
    }
}

/// How many of these, the first one at least, are no more than `most` bytes together.
fn within(slices: &[IoSlice<'_>], most: usize) -> usize {
    let mut left = most;
    let fits = slices.iter().take_while(|slice| {
        let has_room = slice.len() <= left;
        left = left.saturating_sub(slice.len());
        has_room
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_has_one_piece_at_least_and_no_more_bytes_than_it_may() {
        let bytes = [0; 100];
        let slices = [40, 60, 1].map(|len| IoSlice::new(&bytes[..len]));
        let counts = [0, 39, 40, 99, 100, 101].map(|most| within(&slices, most));
        assert_eq!(counts, [1, 1, 1, 1, 2, 3]);
    }
}
