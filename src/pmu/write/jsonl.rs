//! JSON lines: all that is known of a sample, counts as they were read, so that it can be replayed.

use std::io::Write;

use serde_json::{Map, Value, json};

use super::{Epilogue, Preamble, nanos};
use crate::pmu::reason::Place;
use crate::pmu::store::{Layout, Sample};

/// The version of the form of the lines.
pub(in crate::pmu) const VERSION: u64 = 1;

pub(super) fn begin(layout: &Layout, preamble: &Preamble, out: &mut Vec<u8>) {
    let sets: Value = serde_json::from_str(&layout.sets().to_json()).unwrap_or_default();
    let gauges = layout.gauges().iter().enumerate();
    let gauges =
        gauges.map(|(index, name)| json!({"name": name, "is_count": layout.is_count(index)}));
    let missing = preamble.missing.iter().map(|missing| {
        json!({
            "set": missing.set, "name": missing.name, "place": missing.place, "reason": missing.reason,
        })
    });
    line(
        out,
        &json!({
            "tautline_monitor": VERSION, "version": env!("CARGO_PKG_VERSION"), "hz": preamble.hz, "slots": preamble.slots,
            "origin_unix_ns": preamble.origin_unix_nanos, "gauges": gauges.collect::<Vec<_>>(), "missing": missing.collect::<Vec<_>>(),
            "event_sets": sets,
        }),
    );
}

pub(super) fn sample(sample: &Sample<'_>, out: &mut Vec<u8>) {
    let head = sample.head();
    let set = sample.set();
    // By hand: a map for every sample would cost more than all else. Names need no escapes.
    let _ = write!(
        out,
        "{{\"at_ns\":{},\"interval_ns\":{},\"set\":\"{}\",",
        head.at.as_nanos(),
        nanos(head.interval),
        set.name()
    );
    let _ = match head.place {
        Place::Process(process) => write!(out, "\"pid\":{process}"),
        Place::Cpu(cpu) => write!(out, "\"cpu\":{cpu}"),
    };
    let _ = write!(out, ",\"events\":{{");
    let mut comma = "";
    for (name, count) in set.events().iter().zip(sample.counts()) {
        if count.is_present() {
            let _ = write!(
                out,
                "{comma}\"{name}\":{{\"count\":{},\"enabled_ns\":{},\"running_ns\":{}",
                count.count, count.enabled, count.running
            );
            // What it is scaled to, where it is.
            if let Some(value) = count.value().filter(|_| count.running != count.enabled) {
                let _ = write!(out, ",\"scaled\":{value}");
            }
            out.push(b'}');
            comma = ",";
        }
    }
    let metrics = set.metrics().iter().enumerate();
    let metrics = metrics.map(|(index, metric)| (metric.name(), sample.metric(index)));
    object(out, "metrics", metrics);
    let gauges = sample.layout().gauges().iter().enumerate();
    let gauges = gauges.map(|(index, name)| (name.as_str(), sample.gauge(index)));
    object(out, "gauges", gauges);
    out.extend_from_slice(b"}\n");
}

/// Ends the object before, and writes those that have a value.
fn object<'a>(out: &mut Vec<u8>, name: &str, values: impl Iterator<Item = (&'a str, Option<f64>)>) {
    let _ = write!(out, "}},\"{name}\":{{");
    let mut comma = "";
    for (name, value) in values {
        if let Some(value) = value {
            let _ = write!(out, "{comma}\"{name}\":{value}");
            comma = ",";
        }
    }
    if name == "gauges" {
        out.push(b'}');
    }
}

pub(super) fn finish(epilogue: &Epilogue, out: &mut Vec<u8>) {
    let mut end = Map::new();
    end.insert("end".to_owned(), true.into());
    end.insert("lost".to_owned(), epilogue.lost.into());
    if let Some(probe) = epilogue.probe {
        end.insert("probe_share".to_owned(), probe.share().into());
        end.insert("probe_ns".to_owned(), nanos(probe.processor).into());
        end.insert("working_ns".to_owned(), nanos(probe.working).into());
        end.insert("wall_ns".to_owned(), nanos(probe.wall).into());
        end.insert("missed_ticks".to_owned(), probe.missed.into());
    }
    if let Some(share) = epilogue.interrupts {
        end.insert("interrupt_share".to_owned(), share.into());
    }
    line(out, &Value::Object(end));
}

fn line(out: &mut Vec<u8>, value: &Value) {
    // Nothing goes wrong with a vector.
    let _ = serde_json::to_writer(&mut *out, value);
    out.push(b'\n');
}
