//! Control messages of a mobile network: many subscribers register, open sessions and call at once,
//! and the messages of their procedures interleave.
//!
//! What makes such traffic compress is here: the same fields in the same order, identifiers that count
//! slowly upwards and come back in every message of a procedure. And what resists: nonces, keys,
//! message authentication codes.

mod binary;
mod text;

use bytes::Bytes;

use super::index;

/// How many procedures run at a time. Arbitrary; a message's fellows are that many messages back.
const CONCURRENT: usize = 6;

/// The network's ends of all procedures.
#[derive(Clone, Debug)]
pub(super) struct Telecom {
    rng: fastrand::Rng,
    procedures: Vec<Procedure>,
    next_subscriber: u64,
    next_session: u32,
    transaction: u32,
}

/// One subscriber's way from its first message to its release.
#[derive(Clone, Debug)]
struct Procedure {
    subscriber: u64,
    /// Counts up from one procedure to the next, as all that derives from it.
    session: u32,
    /// What the subscriber's call is called: as long as SIP stacks make it.
    call: u64,
    /// The next message of this procedure.
    step: Step,
}

/// A message of a procedure, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Attach,
    FetchCredentials,
    Credentials,
    Challenge,
    ChallengeAnswer,
    ConfirmIdentity,
    IdentityConfirmed,
    SecureChannel,
    SecureChannelDone,
    OpenSession,
    SessionOpened,
    SetUpContext,
    ContextSetUp,
    RegisterCalls,
    CallsRegistered,
    Invite,
    ReportUsage,
    UsageReported,
    Heartbeat,
    Release,
    Released,
}

impl Step {
    const ALL: [Self; 21] = [
        Self::Attach,
        Self::FetchCredentials,
        Self::Credentials,
        Self::Challenge,
        Self::ChallengeAnswer,
        Self::ConfirmIdentity,
        Self::IdentityConfirmed,
        Self::SecureChannel,
        Self::SecureChannelDone,
        Self::OpenSession,
        Self::SessionOpened,
        Self::SetUpContext,
        Self::ContextSetUp,
        Self::RegisterCalls,
        Self::CallsRegistered,
        Self::Invite,
        Self::ReportUsage,
        Self::UsageReported,
        Self::Heartbeat,
        Self::Release,
        Self::Released,
    ];

    /// The step after this one, if there is one.
    fn next(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }
}

impl Telecom {
    pub(super) fn new(mut rng: fastrand::Rng) -> Self {
        let mut telecom = Self {
            next_subscriber: rng.u64(1_000_000..900_000_000),
            next_session: rng.u32(0x1000..0x0100_0000),
            transaction: rng.u32(0..0x0010_0000),
            rng,
            procedures: Vec::with_capacity(CONCURRENT),
        };
        for _ in 0..CONCURRENT {
            let mut procedure = telecom.start();
            // Not all at the same step.
            procedure.step = Step::ALL[index(&mut telecom.rng, Step::ALL.len())];
            telecom.procedures.push(procedure);
        }
        telecom
    }

    pub(super) fn message(&mut self) -> Bytes {
        let index = index(&mut self.rng, self.procedures.len());
        self.transaction = self.transaction.wrapping_add(1);
        let procedure = &mut self.procedures[index];
        let message = procedure.message(self.transaction, &mut self.rng);
        match procedure.step.next() {
            Some(step) => procedure.step = step,
            None => self.procedures[index] = self.start(),
        }
        Bytes::from(message)
    }

    fn start(&mut self) -> Procedure {
        // Neighbours in number, for numbers are given out in blocks.
        self.next_subscriber += self.rng.u64(1..30);
        self.next_session = self.next_session.wrapping_add(1);
        Procedure {
            subscriber: self.next_subscriber,
            session: self.next_session,
            call: self.rng.u64(..),
            step: Step::Attach,
        }
    }
}

impl Procedure {
    fn message(&self, transaction: u32, rng: &mut fastrand::Rng) -> Vec<u8> {
        match self.step {
            Step::FetchCredentials => text::fetch_credentials(self, rng),
            Step::Credentials => text::credentials(self, rng),
            Step::ConfirmIdentity => text::confirm_identity(self),
            Step::IdentityConfirmed => text::identity_confirmed(self),
            Step::ReportUsage => text::report_usage(self, rng),
            Step::UsageReported => text::usage_reported(self),
            Step::RegisterCalls => text::register(self, rng),
            Step::CallsRegistered => text::registered(self, rng),
            Step::Invite => text::invite(self, rng),
            step => binary::message(self, step, transaction, rng),
        }
    }
}
