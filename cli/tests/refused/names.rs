//! Names that are almost those of events.

use super::{Sleeper, ended, monitor};

#[test]
fn a_modifier_that_there_is_not_is_named_with_those_that_there_are() {
    let sleeper = Sleeper::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("sets.toml");
    let sets =
        "[[sets]]\nname = 's'\ngroup = false\nevents = ['page-faults:x', 'minor-faults:u']\n";
    std::fs::write(&path, sets).expect("room");
    let sets = path.to_str().expect("text");
    let pid = sleeper.pid();
    let ended = ended(monitor(&["--sets", sets, "--pid", &pid, "--for", "0.3"]));
    ended.is_well();
    ended.says("page-faults:x", "no such modifier: there are :u");
    assert!(!ended.err.contains("tracefs"), "{}", ended.err);
}
