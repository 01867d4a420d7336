//! Metrics from counts: `instructions / cycles`.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = factor (("*" | "/") factor)*
//! factor  = number | name | "(" sum ")" | "-" factor
//! ```
//!
//! Names have hyphens in them (`L1-dcache-loads`), so that a minus that is meant as one has a blank before or after it.

use thiserror::Error;

use super::event::is_name;

/// The longest formula, bytes.
pub const MAX_FORMULA: usize = 1024;
/// Values that wait at once for an operator; parentheses and signs within each other, too.
const MAX_DEPTH: usize = 32;

/// Why a formula cannot be read. Positions are bytes from its beginning.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormulaError {
    /// It is longer than [`MAX_FORMULA`].
    #[error("a formula of {given} bytes, at most {max} are read")]
    TooLong {
        /// Its length, bytes.
        given: usize,
        /// What is read, bytes.
        max: usize,
    },
    /// Too much is nested.
    #[error("nested deeper than {max} at byte {at}")]
    TooDeep {
        /// Where.
        at: usize,
        /// How deep it may be.
        max: usize,
    },
    /// There stands something that cannot stand there.
    #[error("expected {expected} at byte {at}")]
    Expected {
        /// What could.
        expected: &'static str,
        /// Where.
        at: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Number(f64),
    /// Index in the formula's names.
    Name(usize),
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A formula, ready to be computed again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    names: Vec<String>,
    /// Operands before operators.
    steps: Vec<Step>,
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    ///
    /// It is too long, nested too deep, or none.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        if text.len() > MAX_FORMULA {
            return Err(FormulaError::TooLong {
                given: text.len(),
                max: MAX_FORMULA,
            });
        }
        let mut parser = Parser {
            text,
            at: 0,
            names: Vec::new(),
            steps: Vec::new(),
            waiting: 0,
        };
        parser.sum(0)?;
        if parser.peek().is_some() {
            return Err(parser.expected("an operator or the end"));
        }
        Ok(Self {
            text: text.to_owned(),
            names: parser.names,
            steps: parser.steps,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names in it, each once, in the order that [`Self::value`] asks for them by.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its value, with the values of its names, asked for by their index in [`Self::names`]. `None` if one of those that it needs has none, if
    /// it divides by zero, or if the result is no finite number. It allocates nothing.
    pub fn value(&self, mut of: impl FnMut(usize) -> Option<f64>) -> Option<f64> {
        let mut stack = [0.0; MAX_DEPTH + 1];
        let mut depth = 0;
        for step in &self.steps {
            let value = match *step {
                Step::Number(number) => number,
                Step::Name(index) => of(index)?,
                Step::Negate => {
                    depth -= 1;
                    -stack[depth]
                }
                operator => {
                    depth -= 2;
                    let (left, right): (f64, f64) = (stack[depth], stack[depth + 1]);
                    match operator {
                        Step::Add => left + right,
                        Step::Subtract => left - right,
                        Step::Multiply => left * right,
                        _ if right == 0.0 => return None,
                        _ => left / right,
                    }
                }
            };
            stack[depth] = value;
            depth += 1;
        }
        Some(stack[0]).filter(|value| value.is_finite())
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    names: Vec<String>,
    steps: Vec<Step>,
    /// Values that the steps so far leave.
    waiting: usize,
}

impl<'a> Parser<'a> {
    /// What comes next, after blanks.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
        self.at += blanks.count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected(&self, expected: &'static str) -> FormulaError {
        FormulaError::Expected {
            expected,
            at: self.at,
        }
    }

    fn value(&mut self, step: Step) -> Result<(), FormulaError> {
        if self.waiting == MAX_DEPTH {
            return Err(FormulaError::TooDeep {
                at: self.at,
                max: MAX_DEPTH,
            });
        }
        self.waiting += 1;
        self.steps.push(step);
        Ok(())
    }

    fn operator(&mut self, step: Step) {
        self.waiting -= 1;
        self.steps.push(step);
    }

    fn sum(&mut self, depth: usize) -> Result<(), FormulaError> {
        self.product(depth)?;
        loop {
            let step = match self.peek() {
                Some(b'+') => Step::Add,
                Some(b'-') => Step::Subtract,
                _ => return Ok(()),
            };
            self.at += 1;
            self.product(depth)?;
            self.operator(step);
        }
    }

    fn product(&mut self, depth: usize) -> Result<(), FormulaError> {
        self.factor(depth)?;
        loop {
            let step = match self.peek() {
                Some(b'*') => Step::Multiply,
                Some(b'/') => Step::Divide,
                _ => return Ok(()),
            };
            self.at += 1;
            self.factor(depth)?;
            self.operator(step);
        }
    }

    fn factor(&mut self, depth: usize) -> Result<(), FormulaError> {
        if depth == MAX_DEPTH {
            return Err(FormulaError::TooDeep {
                at: self.at,
                max: MAX_DEPTH,
            });
        }
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                self.sum(depth + 1)?;
                if self.peek() != Some(b')') {
                    return Err(self.expected("an operator or a closing parenthesis"));
                }
                self.at += 1;
                Ok(())
            }
            Some(b'-') => {
                self.at += 1;
                self.factor(depth + 1)?;
                self.steps.push(Step::Negate);
                Ok(())
            }
            Some(byte) if byte.is_ascii_digit() || byte == b'.' => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() => self.name(),
            _ => Err(self.expected("a number, a name or a parenthesis")),
        }
    }

    /// The rest from here on for as long as `is_part` holds, told each byte and the one after it.
    fn take(&self, is_part: impl Fn(u8, Option<u8>) -> bool) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        let is_last = |(index, byte): (usize, &u8)| !is_part(*byte, rest.get(index + 1).copied());
        let len = rest.iter().enumerate().position(is_last);
        &self.text[self.at..self.at + len.unwrap_or(rest.len())]
    }

    fn number(&mut self) -> Result<(), FormulaError> {
        let digits = self.take(|byte, _| byte.is_ascii_digit() || byte == b'.');
        let mut word = digits;
        // 1e6, 1e-6; but 1 before a name is an error here, not a name of its own.
        let rest = &self.text[self.at + digits.len()..];
        if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
            let unsigned = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            let count = unsigned.bytes().take_while(u8::is_ascii_digit).count();
            let len = digits.len() + 1 + (exponent.len() - unsigned.len()) + count;
            word = &self.text[self.at..self.at + len];
        }
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        let number = number.ok_or_else(|| self.expected("a number"))?;
        self.value(Step::Number(number))?;
        self.at += word.len();
        Ok(())
    }

    fn name(&mut self) -> Result<(), FormulaError> {
        let word = self.take(|byte, next| match byte {
            b'-' | b':' | b'.' => next.is_some_and(|next| next.is_ascii_alphanumeric()),
            _ => byte.is_ascii_alphanumeric() || byte == b'_',
        });
        if !is_name(word) {
            return Err(self.expected("a name"));
        }
        let known = self.names.iter().position(|name| name == word);
        let index = known.unwrap_or_else(|| {
            self.names.push(word.to_owned());
            self.names.len() - 1
        });
        self.value(Step::Name(index))?;
        self.at += word.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str, values: &[(&str, f64)]) -> Option<f64> {
        let formula = Formula::parse(text).unwrap();
        formula.value(|index| {
            let name = &formula.names()[index];
            let found = values.iter().find(|(known, _)| known == name);
            found.map(|&(_, value)| value)
        })
    }

    #[test]
    fn operators_bind_as_usual() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("10 - 4 - 3", 3.0),
            ("12 / 3 / 2", 2.0),
            ("-2 * -(3 + 1)", 8.0),
            ("1e3 * 2.5E-1 + .5", 250.5),
            (" 2-1 ", 1.0),
        ] {
            assert_eq!(value(text, &[]), Some(expected), "{text}");
        }
    }

    #[test]
    fn names_have_hyphens_and_a_minus_has_blanks() {
        let values = [
            ("L1-dcache-loads", 8.0),
            ("a", 5.0),
            ("a-a", 1.0),
            ("sched:x", 3.0),
        ];
        assert_eq!(value("L1-dcache-loads / 2", &values), Some(4.0));
        assert_eq!(value("a - a", &values), Some(0.0));
        assert_eq!(value("a-a", &values), Some(1.0));
        assert_eq!(value("a -1", &values), Some(4.0));
        assert_eq!(value("a- 1", &values), Some(4.0));
        assert_eq!(value("sched:x*a", &values), Some(15.0));
        assert_eq!(Formula::parse("a + b + a").unwrap().names(), ["a", "b"]);
    }

    #[test]
    fn what_cannot_be_computed_has_no_value() {
        assert_eq!(value("a / b", &[("a", 1.0), ("b", 0.0)]), None);
        assert_eq!(value("a / b", &[("a", 0.0), ("b", 0.0)]), None);
        assert_eq!(value("a / b", &[("a", 1.0)]), None);
        assert_eq!(value("1e308 * 10", &[]), None);
        assert_eq!(value("a", &[("a", f64::NAN)]), None);
    }

    #[test]
    fn errors_say_where() {
        for (text, at) in [
            ("", 0),
            ("1 +", 3),
            ("(1", 2),
            ("1 2", 2),
            ("a b", 2),
            ("1..2", 0),
            ("1e", 0),
            ("2a", 1),
            ("ä", 0),
            ("a & b", 2),
            ("a)", 1),
        ] {
            match Formula::parse(text) {
                Err(FormulaError::Expected { at: found, .. }) => assert_eq!(found, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn nesting_and_length_are_bounded() {
        let deep = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(Formula::parse(&deep(MAX_DEPTH - 1)).is_ok());
        let is_too_deep =
            |text: &str| matches!(Formula::parse(text), Err(FormulaError::TooDeep { .. }));
        assert!(is_too_deep(&deep(MAX_DEPTH)));
        assert!(is_too_deep(&"-".repeat(500)));
        // Values that wait: 1+(1+(1+(..
        assert!(is_too_deep(&"1+(".repeat(300)));
        assert!(matches!(
            Formula::parse(&" ".repeat(MAX_FORMULA + 1)),
            Err(FormulaError::TooLong { .. })
        ));
    }

    proptest! {
        #[test]
        fn any_text_is_a_formula_or_an_error(text in "[-+*/() a1.e:_]{0,80}") {
            if let Ok(formula) = Formula::parse(&text) {
                let value = formula.value(|_| Some(0.5));
                prop_assert!(value.is_none_or(f64::is_finite));
            }
        }
    }
}
