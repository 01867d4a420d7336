use super::*;

fn stored(message: &[u8]) -> Bytes {
    let mut encoder = EnvelopeEncoder::default();
    encoder.encode(Arm::IDENTITY, message).expect("stored")
}

fn open(envelope: &Bytes) -> Result<Bytes, EnvelopeError> {
    EnvelopeDecoder::default().decode(envelope, &mut NoDictionaries)
}

#[test]
fn what_does_not_shrink_is_stored_and_shares_memory() {
    for message in [&b""[..], b"x", b"short and all different"] {
        let envelope = stored(message);
        assert_eq!(envelope.len(), 6 + message.len());
        let back = open(&envelope).expect("undamaged");
        assert_eq!(back, message);
        assert!(message.is_empty() || back.as_ptr() == envelope[6..].as_ptr());
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_noticed() {
    let envelope = stored(b"a message to be damaged");
    for len in 0..envelope.len() {
        assert!(open(&envelope.slice(..len)).is_err(), "{len}");
    }
    for at in 0..envelope.len() {
        for bit in 0..8 {
            let mut broken = envelope.to_vec();
            broken[at] ^= 1 << bit;
            assert!(open(&broken.into()).is_err(), "byte {at}, bit {bit}");
        }
    }
    let long = [&envelope[..], b"x"].concat();
    assert!(matches!(
        open(&long.into()),
        Err(EnvelopeError::Checksum { .. })
    ));
}

#[test]
fn versions_flags_and_codecs_that_are_not_known_are_refused() {
    let envelope = |bytes: &[u8]| open(&Bytes::copy_from_slice(bytes));
    assert!(matches!(
        envelope(&[0x20, 0, 0, 0, 0, 0]),
        Err(EnvelopeError::Version { given: 2 })
    ));
    assert!(matches!(
        envelope(&[0x11, 0, 0, 0, 0, 0]),
        Err(EnvelopeError::Unknown {
            what: "flag",
            given: 1
        })
    ));
    assert!(matches!(
        envelope(&[0x10, 99, 0, 0, 0, 0]),
        Err(EnvelopeError::Unknown {
            what: "codec",
            given: 99
        })
    ));
    assert!(matches!(
        envelope(&[0x14, 0, 1, 2, 3, 4, 0, 0, 0, 0]),
        Err(EnvelopeError::Decode(DecodeError::NoDictionary { .. }))
    ));
}

#[test]
fn stored_messages_keep_to_the_limit() {
    let mut decoder = EnvelopeDecoder::new(EnvelopeLimits::new(10));
    let mut open = |message: &[u8]| decoder.decode(&stored(message), &mut NoDictionaries);
    assert!(open(&[7; 10]).is_ok());
    assert!(matches!(
        open(&[7; 11]),
        Err(EnvelopeError::TooLong { given: 11, max: 10 })
    ));
}

#[cfg(feature = "lz4")]
mod encoded {
    use super::*;

    const LZ4: Arm = Arm::new(CodecId::LZ4, 0);

    fn text(len: usize) -> Vec<u8> {
        b"attach request accepted; detach; ".repeat(len / 33 + 1)[..len].to_vec()
    }

    fn dictionary(tail: u8) -> Dictionary {
        let content = [&text(500)[..], &[tail; 20]].concat();
        Dictionary::new(content).expect("a length between")
    }

    /// Fails each time.
    struct Broken;

    impl Resolver for Broken {
        fn resolve(&mut self, _: &DictionaryName) -> Result<Option<Dictionary>, ResolveError> {
            Err(ResolveError::Unavailable(std::io::Error::other("gone")))
        }
    }

    /// Gives the same whatever it is asked for.
    struct Stubborn(Dictionary);

    impl Resolver for Stubborn {
        fn resolve(&mut self, _: &DictionaryName) -> Result<Option<Dictionary>, ResolveError> {
            Ok(Some(self.0.clone()))
        }
    }

    #[test]
    fn every_arm_and_form_of_name_round_trips() {
        let mut decoder = EnvelopeDecoder::default();
        let message = text(300);
        let held = [dictionary(1), dictionary(2)];
        for form in [NameForm::Short, NameForm::Medium, NameForm::Whole] {
            let mut encoder = EnvelopeEncoder::new(form, DecodeLimits::default());
            for info in crate::codecs::supported() {
                for arm in info.arms() {
                    let envelope = encoder.encode(arm, &message).expect("encodes");
                    assert_eq!(needed_dictionary(&envelope).expect("whole"), None);
                    let back = decoder.decode(&envelope, &mut NoDictionaries);
                    assert_eq!(back.expect("undamaged"), message, "{arm}");
                    if !takes_dictionary(arm.codec) {
                        continue;
                    }
                    let envelope = encoder.encode_with(arm, &held[1], &message);
                    let envelope = envelope.expect("encodes");
                    let name = needed_dictionary(&envelope).expect("whole");
                    assert_eq!(name, Some(DictionaryName::new(&held[1].id(), form)));
                    let back = decoder.decode(&envelope, &mut &held[..]);
                    assert_eq!(back.expect("undamaged"), message, "{arm}");
                }
            }
        }
    }

    #[test]
    fn a_dictionary_that_cannot_be_had_is_an_error_of_its_own() {
        let mut encoder = EnvelopeEncoder::default();
        let envelope = encoder
            .encode_with(LZ4, &dictionary(1), &text(300))
            .expect("encodes");
        let mut decoder = EnvelopeDecoder::default();
        assert!(matches!(
            decoder.decode(&envelope, &mut NoDictionaries),
            Err(EnvelopeError::NoSuchDictionary { .. })
        ));
        assert!(matches!(
            decoder.decode(&envelope, &mut Broken),
            Err(EnvelopeError::Resolve(ResolveError::Unavailable(_)))
        ));
        assert!(matches!(
            decoder.decode(&envelope, &mut Stubborn(dictionary(2))),
            Err(EnvelopeError::WrongDictionary { .. })
        ));
        let strict = EnvelopeLimits {
            least_name: NameForm::Whole,
            ..EnvelopeLimits::default()
        };
        assert!(matches!(
            EnvelopeDecoder::new(strict).decode(&envelope, &mut NoDictionaries),
            Err(EnvelopeError::NameTooShort { given: 8, min: 32 })
        ));
        let held = [dictionary(1)];
        assert!(decoder.decode(&envelope, &mut &held[..]).is_ok());
    }

    #[test]
    fn names_that_several_share_are_said_to_be_ambiguous() {
        // The first two of `dictionary 0`, `dictionary 1` and so on whose SHA-256 share four bytes: 4b415c8a.
        let contents = [&b"dictionary 76850"[..], b"dictionary 80023"];
        let held = contents.map(|it| Dictionary::new(it).expect("a length between"));
        let message = contents[0].repeat(4);
        let envelope = |form| {
            let mut encoder = EnvelopeEncoder::new(form, DecodeLimits::default());
            let sealed = encoder.encode_with(LZ4, &held[0], &message);
            sealed.expect("encodes")
        };
        let short = envelope(NameForm::Short);
        let name = DictionaryName::new(&held[0].id(), NameForm::Short);
        assert_eq!(needed_dictionary(&short).expect("whole"), Some(name));
        assert!(held.iter().all(|it| name.matches(&it.id())), "{name}");
        let mut decoder = EnvelopeDecoder::default();
        let mut both = &held[..];
        let answer = decoder.decode(&short, &mut both);
        let Err(EnvelopeError::Resolve(ResolveError::Ambiguous { name: said, count })) = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!((said, count), (name, 2));
        // The next is not affected: longer names tell them apart, and one that is there twice is still one.
        for form in [NameForm::Medium, NameForm::Whole] {
            let back = decoder.decode(&envelope(form), &mut both);
            assert_eq!(back.expect("undamaged"), message);
        }
        let mut twice = &[held[0].clone(), held[0].clone()][..];
        let back = decoder.decode(&short, &mut twice);
        assert_eq!(back.expect("undamaged"), message);
    }

    #[test]
    fn a_declared_length_is_judged_before_anything_is_reserved() {
        let mut envelope = vec![0x10, 1];
        crate::wire::put_varint(&mut envelope, u64::MAX);
        envelope.extend_from_slice(&[0; 20]);
        assert!(matches!(
            open(&envelope.into()),
            Err(EnvelopeError::TooLong {
                given: u64::MAX,
                ..
            })
        ));
        // One more or less than it becomes.
        let whole = EnvelopeEncoder::default()
            .encode(LZ4, &text(100))
            .expect("encodes");
        for declared in [99, 101] {
            let mut broken = whole.to_vec();
            broken[2] = declared;
            assert!(matches!(
                open(&broken.into()),
                Err(EnvelopeError::Decode(_))
            ));
        }
    }

    #[test]
    fn the_envelope_counts_and_not_the_body_alone() {
        // A body two bytes shorter than the message, behind a header one byte longer, still pays;
        // with a dictionary's name in front it does not.
        let mut encoder = EnvelopeEncoder::default();
        for len in 0..80 {
            let message = text(len);
            for envelope in [
                encoder.encode(LZ4, &message).expect("encodes"),
                encoder
                    .encode_with(LZ4, &dictionary(1), &message)
                    .expect("encodes"),
            ] {
                assert!(envelope.len() <= 6 + len, "{len}");
            }
        }
    }
}
