//! Comma-separated values, with a preamble and, for each sample, time, place and every value (in the spirit of Jägemar 2018, figure 8.8).

use std::io::Write;

use super::{Column, Epilogue, Preamble, columns};
use crate::pmu::reason::Place;
use crate::pmu::store::{Layout, Sample};

#[derive(Debug)]
pub(super) struct Csv {
    columns: Vec<Column>,
}

impl Csv {
    pub(super) fn begin(layout: &Layout, preamble: &Preamble, out: &mut Vec<u8>) -> Self {
        line(
            out,
            format_args!("# tautline monitor {}", env!("CARGO_PKG_VERSION")),
        );
        line(
            out,
            format_args!(
                "# {} Hz, {} slots, times from {} ns after 1970",
                preamble.hz, preamble.slots, preamble.origin_unix_nanos
            ),
        );
        for missing in &preamble.missing {
            line(out, format_args!("# not counted: {missing}"));
        }
        let _ = write!(out, "seconds,interval,set,pid,cpu,share");
        let columns = columns(layout);
        for (name, _) in &columns {
            let _ = write!(out, ",{name}");
        }
        out.push(b'\n');
        Self {
            columns: columns.into_iter().map(|(_, column)| column).collect(),
        }
    }

    pub(super) fn sample(&self, sample: &Sample<'_>, out: &mut Vec<u8>) {
        let head = sample.head();
        let (pid, cpu) = match head.place {
            Place::Process(process) => (Some(process), None),
            Place::Cpu(cpu) => (None, Some(cpu)),
        };
        // Nothing goes wrong with a vector.
        let _ = write!(
            out,
            "{:.9},{:.9},{},",
            head.at.as_secs_f64(),
            head.interval.as_secs_f64(),
            sample.set().name()
        );
        let _ = pid.map_or(Ok(()), |pid| write!(out, "{pid}"));
        out.push(b',');
        let _ = cpu.map_or(Ok(()), |cpu| write!(out, "{cpu}"));
        cell(out, sample.share());
        for column in &self.columns {
            cell(out, column.of(sample));
        }
        out.push(b'\n');
    }
}

pub(super) fn finish(epilogue: &Epilogue, out: &mut Vec<u8>) {
    if epilogue.lost > 0 {
        line(
            out,
            format_args!(
                "# {} samples were overwritten before they were written",
                epilogue.lost
            ),
        );
    }
    if let Some(probe) = epilogue.probe {
        line(
            out,
            format_args!(
                "# the monitor took {:.4} % of one processor: {:.3?} in {:.3?}, of which it worked {:.3?}; {} ticks came too late",
                100.0 * probe.share(),
                probe.processor,
                probe.wall,
                probe.working,
                probe.missed
            ),
        );
    }
    if let Some(share) = epilogue.interrupts {
        line(
            out,
            format_args!(
                "# the kernel's interrupts for samples took {:.3} % of each processor besides",
                100.0 * share
            ),
        );
    }
}

fn cell(out: &mut Vec<u8>, value: Option<f64>) {
    out.push(b',');
    if let Some(value) = value {
        let _ = write!(out, "{value}");
    }
}

fn line(out: &mut Vec<u8>, text: core::fmt::Arguments<'_>) {
    // What others named, such as an error of the system's, stays on its line.
    let text = text.to_string().replace(['\n', '\r'], " ");
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
}
