//! The contexts of codecs that have none in this build. There is none of these, so that the code over all
//! families reads the same whatever this build has.

use crate::codecs::{CodecId, DecodeError, EncodeError};

#[derive(Debug)]
pub(super) enum Encoder {}

impl Encoder {
    pub(super) fn new(codec: CodecId, _window_log: u8, _prime: &[u8]) -> Result<Self, EncodeError> {
        Err(EncodeError::UnknownCodec { codec })
    }

    pub(super) fn encode(&mut self, _plain: &[u8], _wire: &mut Vec<u8>) -> Result<(), EncodeError> {
        match *self {}
    }

    pub(super) fn memory(&self) -> usize {
        match *self {}
    }
}

#[derive(Debug)]
pub(super) enum Decoder {}

impl Decoder {
    pub(super) fn new(codec: CodecId, _window_log: u8, _prime: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::UnknownCodec { codec })
    }

    pub(super) fn restart(&mut self, _prime: &[u8]) -> Result<(), DecodeError> {
        match *self {}
    }

    pub(super) fn decode(&mut self, _wire: &[u8], _plain: &mut [u8]) -> Result<usize, DecodeError> {
        match *self {}
    }

    pub(super) fn memory(&self) -> usize {
        match *self {}
    }
}
