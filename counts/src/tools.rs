//! What counts were read with: all that they depend on besides the source.

use std::process::Command;

/// A change of any of these may change counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tools {
    pub(crate) target: String,
    pub(crate) rustc: String,
    /// The C compiler, by which zstd was built.
    pub(crate) cc: String,
    /// C's library, which copies bytes and hands out memory.
    pub(crate) libc: String,
    pub(crate) valgrind: String,
    /// What of the processor valgrind lets programs use: C's libraries, zstd and checksums choose by it.
    pub(crate) processor: String,
}

/// What a program that runs under valgrind sees of the processor's instructions.
pub(crate) fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            (is_x86_feature_detected!("sse4.2"), "sse4.2"),
            (is_x86_feature_detected!("pclmulqdq"), "pclmulqdq"),
            (is_x86_feature_detected!("fma"), "fma"),
            (is_x86_feature_detected!("bmi2"), "bmi2"),
            (is_x86_feature_detected!("avx2"), "avx2"),
        ];
        let known = known.iter().filter(|(is_there, _)| *is_there);
        known.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        String::from("not asked")
    }
}

impl Tools {
    pub(crate) fn of_this_build(valgrind: String, processor: String) -> Self {
        let libc = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
        let libc = libc.map_or_else(|_| Vec::new(), |output| output.stdout);
        Self {
            target: env!("COUNTS_TARGET").to_owned(),
            rustc: env!("COUNTS_RUSTC").to_owned(),
            cc: env!("COUNTS_CC").to_owned(),
            libc: String::from_utf8_lossy(&libc).trim().to_owned(),
            valgrind,
            processor,
        }
    }

    /// Names and values, in the order of the file.
    pub(crate) fn rows(&self) -> [(&'static str, &str); 6] {
        [
            ("target", &self.target),
            ("rustc", &self.rustc),
            ("cc", &self.cc),
            ("libc", &self.libc),
            ("valgrind", &self.valgrind),
            ("processor", &self.processor),
        ]
    }

    /// What `now` has otherwise.
    pub(crate) fn differences(&self, now: &Self) -> Vec<String> {
        let both = self.rows().into_iter().zip(now.rows());
        both.filter(|(before, now)| before != now)
            .map(|((name, before), (_, now))| format!("{name}: {before:?}, now {now:?}"))
            .collect()
    }
}
