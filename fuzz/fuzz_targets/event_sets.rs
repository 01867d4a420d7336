//! Raw bytes as a file of event sets, of a processor's model, as a formula, and as a recording that is replayed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline::pmu::{EventSets, Formula, ModelFile, Names, Recording};

/// Ticks of a recording that are replayed: what a longer one does, it does again.
const TICKS: usize = 256;

fuzz_target!(|input: &[u8]| {
    if let Ok(recording) = Recording::read(input) {
        if let Ok(mut monitor) = recording.monitor(|config| config.slots(64)) {
            for _ in 0..TICKS {
                if !monitor.replay_tick() {
                    break;
                }
            }
            let (store, layout) = (monitor.store(), monitor.layout());
            if let Some(sample) = store.get(layout, store.newest()) {
                for index in 0..sample.set().metrics().len() {
                    assert!(sample.metric(index).is_none_or(f64::is_finite));
                }
            }
        }
    }
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    if let Ok(formula) = Formula::parse(text) {
        let value = formula.value(|index| Some(index as f64 - 1.0));
        assert!(value.is_none_or(f64::is_finite));
    }
    if let Ok(sets) = EventSets::parse(text) {
        let again = EventSets::parse(&sets.to_json()).expect("what was read can be written");
        assert_eq!(again, sets);
        let names = Names::generic();
        for event in sets.sets().iter().flat_map(|set| set.events()) {
            let _ = names.resolve(event);
        }
    }
    let _ = ModelFile::parse(text);
});
