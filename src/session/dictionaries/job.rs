//! Work on dictionaries that takes long: to make one, to pack it for the way, to unpack and check one that came.

use crate::codecs::{Arm, CodecId, Codecs, Encoded, info, supported, takes_dictionary};
use crate::dictionary::{Dictionary, DictionaryError, DictionaryId, TrainJob, Trained};
use crate::wire::WireError;

/// How a dictionary is encoded on its way: once for many messages.
const PACKING: Arm = Arm::new(CodecId::ZSTD, 19);
/// Time that a training takes for a byte of messages, ns. Measured: 60 to train (docs/benchmarks.md), as much again to
/// evaluate.
const TRAIN_NANOS_PER_BYTE: u64 = 120;
/// Time to pack or unpack a byte, ns: at most what the strongest level takes for 16 KiB, measured.
const PACK_NANOS_PER_BYTE: u64 = 600;
const UNPACK_NANOS_PER_BYTE: u64 = 30;

/// Work on a dictionary, never on the way of messages: off the executor's thread. Run it with
/// [`CodecWorker::dictionary`](crate::session::CodecWorker::dictionary) and give the result to
/// [`Session::handle_dictionary`](crate::session::Session::handle_dictionary).
#[derive(Debug)]
pub struct DictionaryJob(pub(super) Job);

#[derive(Debug)]
pub(super) enum Job {
    /// Long, and asked for with every turn.
    Train {
        class: usize,
        job: Box<TrainJob>,
    },
    Pack(Dictionary),
    Unpack(Packed),
}

/// A dictionary as it came.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) number: u64,
    pub(super) id: DictionaryId,
    pub(super) len: usize,
    pub(super) codec: CodecId,
    pub(super) wire: Vec<u8>,
}

/// A [`DictionaryJob`] that was run.
#[derive(Debug)]
pub struct DictionaryWork(pub(super) Work);

#[derive(Debug)]
pub(super) enum Work {
    Trained {
        class: usize,
        trained: Trained,
    },
    Packed {
        dictionary: Dictionary,
        codec: CodecId,
        wire: Vec<u8>,
    },
    Unpacked {
        number: u64,
        /// `None` if no codec can use it.
        result: Result<Option<Dictionary>, WireError>,
    },
}

impl DictionaryJob {
    /// About how long it takes, ns.
    pub fn likely_nanos(&self) -> u64 {
        match &self.0 {
            Job::Train { job, .. } => train_nanos(job.bytes()),
            Job::Pack(dictionary) => dictionary.len() as u64 * PACK_NANOS_PER_BYTE,
            Job::Unpack(packed) => packed.len as u64 * UNPACK_NANOS_PER_BYTE,
        }
    }

    pub(in crate::session) fn run(self, codecs: &mut Codecs) -> DictionaryWork {
        DictionaryWork(match self.0 {
            Job::Train { class, job } => Work::Trained {
                class,
                trained: job.run(codecs),
            },
            Job::Pack(dictionary) => pack(dictionary, codecs),
            Job::Unpack(packed) => Work::Unpacked {
                number: packed.number,
                result: unpack(&packed, codecs),
            },
        })
    }
}

pub(super) const fn train_nanos(bytes: usize) -> u64 {
    bytes as u64 * TRAIN_NANOS_PER_BYTE
}

fn pack(dictionary: Dictionary, codecs: &mut Codecs) -> Work {
    let mut wire = vec![0; dictionary.len()];
    let encoded = if info(PACKING.codec).is_some() {
        codecs.encode(PACKING, dictionary.content(), &mut wire)
    } else {
        Ok(Encoded::NotSmaller)
    };
    let codec = if let Ok(Encoded::Written(len)) = encoded {
        wire.truncate(len);
        PACKING.codec
    } else {
        wire.copy_from_slice(dictionary.content());
        CodecId::IDENTITY
    };
    Work::Packed {
        dictionary,
        codec,
        wire,
    }
}

fn unpack(packed: &Packed, codecs: &mut Codecs) -> Result<Option<Dictionary>, WireError> {
    let mut content = vec![0; packed.len];
    let undecodable = |detail: String| WireError::Undecodable {
        wire_len: packed.wire.len(),
        detail,
    };
    codecs
        .decode_exact(packed.codec, &packed.wire, &mut content)
        .map_err(|error| undecodable(error.to_string()))?;
    let dictionary = match Dictionary::verified(packed.id, content, packed.len) {
        Ok(dictionary) => dictionary,
        Err(DictionaryError::WrongHash { expected, computed }) => {
            let begin = |id: DictionaryId| {
                let bytes = id.as_bytes();
                u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
            };
            return Err(WireError::Checksum {
                what: "dictionary",
                given: begin(expected),
                computed: begin(computed),
            });
        }
        Err(error) => return Err(undecodable(error.to_string())),
    };
    let mut takers = supported().iter().filter(|info| takes_dictionary(info.id));
    let usable = takers.all(|info| codecs.check_dictionary(info.id, &dictionary).is_ok());
    Ok(usable.then_some(dictionary))
}
