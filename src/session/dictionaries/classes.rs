//! Which streams' messages share dictionaries, by the streams' names.

use crate::session::ConfigError;

/// Rules at most. Arbitrary: many more than the classes that a session trains for.
const MAX_RULES: usize = 64;
/// The longest pattern and the longest name of a class, bytes: as long as a stream's name may be.
const MAX_LEN: usize = crate::session::MAX_NAME_LEN;

/// Patterns of names and the classes that they stand for; the first that fits counts.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct TrafficClasses {
    rules: Vec<(String, String)>,
}

impl TrafficClasses {
    pub(in crate::session) fn push(&mut self, pattern: String, class: String) {
        // One too many is kept, so that `validate` can say so, but no more.
        if self.rules.len() <= MAX_RULES {
            self.rules.push((pattern, class));
        }
    }

    /// The class of a stream: by default, its name.
    pub(in crate::session) fn class_of<'a>(&'a self, stream: &'a str) -> &'a str {
        let mut rules = self.rules.iter();
        let found = rules.find(|(pattern, _)| fits(pattern.as_bytes(), stream.as_bytes()));
        found.map_or(stream, |(_, class)| class)
    }

    pub(in crate::session) fn validate(&self) -> Result<(), ConfigError> {
        let most = |field, given, max| {
            if given > max {
                Err(ConfigError::TooLarge { field, given, max })
            } else {
                Ok(())
            }
        };
        most("number of traffic classes", self.rules.len(), MAX_RULES)?;
        self.rules.iter().try_for_each(|(pattern, class)| {
            most(
                "length of a traffic class's pattern",
                pattern.len(),
                MAX_LEN,
            )?;
            most("length of a traffic class's name", class.len(), MAX_LEN)
        })
    }
}

/// Whether `name` is what `pattern` says: each `*` stands for any bytes, also none, all else for itself.
/// Takes at most as many steps as the product of their lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Behind the last `*`, and where what it stands for ends so far. An earlier one need not be looked at again:
    // what lies between the two was found as far to the left as possible.
    let mut last: Option<(usize, usize)> = None;
    while seen < name.len() {
        match (pattern.get(at), last) {
            (Some(b'*'), _) => {
                at += 1;
                last = Some((at, seen));
            }
            (Some(byte), _) if *byte == name[seen] => {
                at += 1;
                seen += 1;
            }
            (_, Some((after, end))) => {
                at = after;
                seen = end + 1;
                last = Some((after, seen));
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word for word.
    fn fits_by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|at| fits_by_definition(rest, &name[at..])),
            Some((byte, rest)) => {
                name.first() == Some(byte) && fits_by_definition(rest, &name[1..])
            }
        }
    }

    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, name, expected) in [
            ("orders", "orders", true),
            ("orders", "orders/1", false),
            ("orders/*", "orders/", true),
            ("orders/*", "orders/eu/1", true),
            ("orders/*", "orders", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*/log", "a/log/log", true),
            ("*/log", "a/log/logs", false),
            ("é*", "été", true),
            ("a*b*c", "abcbc", true),
        ] {
            let found = fits(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn any_pattern_and_name_fit_as_the_definition_has_it() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut fitting = 0;
        for _ in 0..20_000 {
            let mut any = |letters: &[u8], most: usize| -> Vec<u8> {
                let len = rng.usize(..=most);
                (0..len)
                    .map(|_| letters[rng.usize(..letters.len())])
                    .collect()
            };
            let (pattern, name) = (any(b"ab*", 7), any(b"ab", 9));
            let expected = fits_by_definition(&pattern, &name);
            assert_eq!(fits(&pattern, &name), expected, "{pattern:?} {name:?}");
            fitting += usize::from(expected);
        }
        assert!(fitting > 1000, "{fitting}");
    }

    #[test]
    fn a_pattern_made_to_take_long_does_not() {
        let pattern = "*a".repeat(127) + "b";
        assert!(!fits(pattern.as_bytes(), "a".repeat(255).as_bytes()));
    }

    #[test]
    fn the_first_that_fits_counts_and_the_name_where_none_does() {
        let mut classes = TrafficClasses::default();
        for (pattern, class) in [
            ("orders/eu/*", "eu"),
            ("orders/*", "orders"),
            ("*/eu", "never"),
        ] {
            classes.push(pattern.to_owned(), class.to_owned());
        }
        assert_eq!(classes.class_of("orders/eu/7"), "eu");
        assert_eq!(classes.class_of("orders/us/7"), "orders");
        assert_eq!(classes.class_of("orders/eu"), "orders");
        assert_eq!(classes.class_of("metrics"), "metrics");
        assert_eq!(classes.validate(), Ok(()));
    }

    #[test]
    fn too_many_rules_and_too_long_ones_are_said_to_be() {
        let mut classes = TrafficClasses::default();
        for number in 0..MAX_RULES {
            classes.push(format!("{number}"), "all".to_owned());
        }
        assert_eq!(classes.validate(), Ok(()));
        classes.push("*".to_owned(), "all".to_owned());
        assert!(matches!(
            classes.validate(),
            Err(ConfigError::TooLarge {
                given: 65,
                max: 64,
                ..
            })
        ));
        for (pattern, class) in [(256, 1), (1, 256)] {
            let mut classes = TrafficClasses::default();
            classes.push("a".repeat(pattern), "b".repeat(class));
            assert!(matches!(
                classes.validate(),
                Err(ConfigError::TooLarge {
                    given: 256,
                    max: 255,
                    ..
                })
            ));
        }
    }
}
