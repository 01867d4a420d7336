//! The files of `tests/vectors`.

use std::path::Path;

/// A vector: its lines in order.
pub(super) struct Vector(pub(super) Vec<(String, String)>);

impl Vector {
    pub(super) fn name(&self) -> &str {
        &self.0[0].1
    }

    pub(super) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, key: &str) -> Option<usize> {
        self.values(key)
            .next()
            .map(|value| value.parse().expect("a number"))
    }

    pub(super) fn says(&self, key: &str, value: &str) -> bool {
        self.values(key).any(|given| given == value)
    }

    pub(super) fn bytes(&self, key: &str) -> Vec<u8> {
        unhex(&self.values(key).collect::<String>())
    }

    pub(super) fn expected(&self) -> Vec<String> {
        self.values("expect").map(str::to_owned).collect()
    }
}

pub(super) fn vectors(file: &str) -> Vec<Vector> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(file);
    let text = std::fs::read_to_string(&path).expect("the vector file");
    let mut vectors: Vec<Vector> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once(':').expect("`key: value`");
        if key == "name" {
            vectors.push(Vector(Vec::new()));
        }
        let vector = vectors.last_mut().expect("a vector begins with its name");
        vector.0.push((key.to_owned(), value.trim().to_owned()));
    }
    assert!(!vectors.is_empty(), "{file} has no vector");
    for vector in &vectors {
        let expects = vector.values("expect").count();
        assert!(expects > 0, "{file}: {} expects nothing", vector.name());
    }
    vectors
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len() % 2 == 0, "an odd number of digits");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)])
        .collect()
}
