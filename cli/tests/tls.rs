//! The program over TLS.

mod support;

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::support::{Echo, json_lines, run, text};

/// A folder with certificates in it.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_str().expect("text").to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(Path::new(&path), content).expect("room");
        path
    }

    /// An authority's certificate, and one with its key from it for each name.
    fn authority(&self, authority: &str, names: &[&str]) {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params
            .distinguished_name
            .push(DnType::CommonName, authority);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        self.write(&format!("{authority}.pem"), &issuer.pem());
        for name in names {
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new(vec![(*name).to_owned()]).expect("a name");
            let certificate = params.signed_by(&key, &issuer).expect("a certificate");
            self.write(&format!("{authority}-{name}.pem"), &certificate.pem());
            self.write(&format!("{authority}-{name}.key"), &key.serialize_pem());
        }
    }

    fn new() -> Self {
        let files = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        files.authority("ours", &["localhost", "client"]);
        files.authority("theirs", &["localhost", "client"]);
        files.write("corpus.txt", &"a line of many\n".repeat(200));
        files
    }

    fn send(&self, address: &str, more: &[&str]) -> std::process::Output {
        let corpus = self.path("corpus.txt");
        let arguments = ["send", "--connect", address, "--corpus", &corpus, "--json"];
        run(&[&arguments[..], &["--no-guard"], more].concat())
    }
}

#[test]
fn messages_are_sent_over_tls_with_both_sides_known() {
    let files = Files::new();
    let [cert, key] = ["pem", "key"].map(|end| files.path(&format!("ours-localhost.{end}")));
    let [client, client_key] = ["pem", "key"].map(|end| files.path(&format!("ours-client.{end}")));
    let [stranger, stranger_key] =
        ["pem", "key"].map(|end| files.path(&format!("theirs-client.{end}")));
    let (ours, theirs) = (files.path("ours.pem"), files.path("theirs.pem"));
    let tls = ["--tls-cert", &cert, "--tls-key", &key, "--tls-ca", &ours];
    let echo = Echo::start_at("tls:127.0.0.1:0", &tls);
    assert!(
        echo.address.starts_with("tls:127.0.0.1:"),
        "{}",
        echo.address
    );
    let known = ["--tls-cert", &client, "--tls-key", &client_key];
    let trusting = ["--tls-ca", &ours, "--tls-name", "localhost"];
    let rows = json_lines(&files.send(&echo.address, &[known, trusting].concat()));
    assert_eq!(rows[1]["total"]["messages"], 200);

    let refused = |more: &[&str], why: &str| {
        let output = files.send(&echo.address, more);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    };
    // Not who it connects to, by its address; not from whom it should be; nobody; a stranger.
    refused(&[&known[..], &["--tls-ca", &ours]].concat(), "127.0.0.1");
    let mistaken = ["--tls-ca", &theirs, "--tls-name", "localhost"];
    refused(&[known, mistaken].concat(), "UnknownIssuer");
    refused(&trusting, "CertificateRequired");
    let strange = ["--tls-cert", &stranger, "--tls-key", &stranger_key];
    refused(&[strange, trusting].concat(), "UnknownCA");
    // What cannot be meant.
    refused(&[], "--tls-ca");
    refused(&["--tls-ca", &files.path("missing")], "missing");
    refused(&["--tls-cert", &cert], "--tls-key");
    let plain = echo.address.replace("tls:", "");
    let output = files.send(&plain, &trusting);
    assert!(text(&output.stderr).contains("tls:HOST:PORT"), "{output:?}");
    let output = files.send(&plain, &[]);
    assert!(text(&output.stderr).contains("may speak TLS"), "{output:?}");
    let output = run(&["echo", "--listen", "tls:127.0.0.1:0"]);
    assert!(text(&output.stderr).contains("--tls-cert"), "{output:?}");
}

#[cfg(unix)]
#[test]
fn an_echo_reads_its_certificates_again_when_it_is_told_to() {
    let files = Files::new();
    let copy = |from: &str| {
        for end in ["pem", "key"] {
            let from = files.path(&format!("{from}-localhost.{end}"));
            std::fs::copy(from, files.path(&format!("current.{end}"))).expect("a copy");
        }
    };
    copy("ours");
    let [cert, key] = ["pem", "key"].map(|end| files.path(&format!("current.{end}")));
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let mut echo = Echo::start_at("tls:127.0.0.1:0", &tls);
    let address = echo.address.clone();
    let reaches = |authority: &str| {
        let authority = files.path(&format!("{authority}.pem"));
        let name = ["--tls-ca", &authority, "--tls-name", "localhost"];
        files.send(&address, &name).status.success()
    };
    assert!(reaches("ours") && !reaches("theirs"));
    let pid = echo.child.id().to_string();
    let hang_up = || {
        let mut kill = std::process::Command::new("kill");
        let status = kill.args(["-HUP", &pid]).status().expect("a command");
        assert!(status.success());
    };
    copy("theirs");
    hang_up();
    while !echo.next_line().contains("read again") {}
    assert!(!reaches("ours") && reaches("theirs"));
    // What cannot be used is not taken.
    files.write("current.key", "no key");
    hang_up();
    assert!(!reaches("ours") && reaches("theirs"));
}
