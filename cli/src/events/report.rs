//! What an analysis has come to, printed.

use serde_json::{Value, json};

use super::accounts::{self, Named};
use super::analysis::{Figures, Stage, Times};
use super::source::Sizes;
use crate::failure::{Failure, say};
use crate::text;

/// Of messages' times.
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0)];

pub(super) fn print(
    figures: &Figures,
    named: &Named,
    sizes: Sizes,
    json: bool,
) -> Result<(), Failure> {
    if json {
        say!("{}", as_json(figures, named, sizes))
    } else {
        print_text(figures, named, sizes)
    }
}

fn times_json(times: &Times) -> Value {
    let quantiles = QUANTILES.iter().map(|(name, quantile)| {
        let nanos = u64::try_from(times.at(*quantile).as_nanos()).unwrap_or(u64::MAX);
        (format!("{name}_ns"), json!(nanos))
    });
    let messages = ("messages".to_owned(), json!(times.messages()));
    Value::Object(std::iter::once(messages).chain(quantiles).collect())
}

fn as_json(figures: &Figures, named: &Named, sizes: Sizes) -> Value {
    let stages = Stage::ALL.iter().filter_map(|stage| {
        let times = figures.stages.get(stage)?;
        Some((stage.name().to_owned(), times_json(times)))
    });
    let streams = figures.streams.iter().map(|(name, stream)| {
        let stream = json!({
            "sent": stream.sent,
            "sent_bytes": stream.sent_bytes,
            "received": stream.received,
            "received_bytes": stream.received_bytes,
            "queued to acked": times_json(&stream.out),
            "received to delivered": times_json(&stream.within),
        });
        (name.clone(), stream)
    });
    let arms = figures.arms.iter().map(|(arm, made)| {
        let made = json!({
            "blocks": made.blocks,
            "plain": made.plain,
            "wire": made.wire,
            "encode_ns": u64::try_from(made.encode.as_nanos()).unwrap_or(u64::MAX),
        });
        (arm.to_string(), made)
    });
    json!({
        "seconds": figures.span().as_secs_f64(),
        "stages": Value::Object(stages.collect()),
        "streams": Value::Object(streams.collect()),
        "arms": Value::Object(arms.collect()),
        "events": figures.events,
        "accounts": accounts::as_json(named),
        "load": figures.load,
        "rows": sizes.rows,
        "rows_lost": sizes.lost,
        "rows_left_out": sizes.partial,
        "unrecorded": sizes.unrecorded,
        "ring_bytes": sizes.ring,
        "ring_bytes_to_lose_nothing": sizes.needed,
    })
}

fn print_text(figures: &Figures, named: &Named, sizes: Sizes) -> Result<(), Failure> {
    let seconds = figures.span().as_secs_f64();
    say!("{} rows of {seconds:.2} s", sizes.rows - sizes.partial)?;
    say!("")?;
    say!(
        "{:<22} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "time of messages",
        "messages",
        QUANTILES[0].0,
        QUANTILES[1].0,
        QUANTILES[2].0,
        QUANTILES[3].0
    )?;
    for stage in Stage::ALL {
        let Some(times) = figures.stages.get(&stage) else {
            continue;
        };
        let [half, nine, most_of, most] =
            QUANTILES.map(|(_, quantile)| text::fine_time(times.at(quantile)));
        say!(
            "{:<22} {:>10} {half:>9} {nine:>9} {most_of:>9} {most:>9}",
            stage.name(),
            times.messages(),
        )?;
    }
    say!("")?;
    say!(
        "{:<22} {:>10} {:>12} {:>10} {:>12}",
        "stream",
        "sent/s",
        "",
        "received/s",
        ""
    )?;
    let per_second = |amount: u64| amount as f64 / seconds.max(1e-9);
    for (name, stream) in &figures.streams {
        let bytes = |bytes| format!("{}/s", text::bytes(per_second(bytes) as u64));
        say!(
            "{name:<22} {:>10.0} {:>12} {:>10.0} {:>12}",
            per_second(stream.sent),
            bytes(stream.sent_bytes),
            per_second(stream.received),
            bytes(stream.received_bytes),
        )?;
    }
    say!("")?;
    say!(
        "{:<22} {:>10} {:>12} {:>10} {:>12}",
        "codec",
        "blocks",
        "plain",
        "ratio",
        "encoding"
    )?;
    for (arm, made) in &figures.arms {
        let ratio = (made.wire > 0).then(|| made.plain as f64 / made.wire as f64);
        say!(
            "{:<22} {:>10} {:>12} {:>10} {:>12}",
            arm.to_string(),
            made.blocks,
            text::bytes(made.plain),
            text::ratio(ratio),
            text::fine_time(made.encode),
        )?;
    }
    say!("")?;
    accounts::print(named)?;
    say!("{}", sizing(sizes))
}

/// Whether the logs are long enough, and how long they should be.
pub(super) fn sizing(sizes: Sizes) -> String {
    let lost = if sizes.lost == 0 {
        "no rows lost".to_owned()
    } else {
        format!("{} rows lost", sizes.lost)
    };
    let threads = match sizes.unrecorded {
        0 => String::new(),
        events => format!("; {events} events of threads beyond the log's writers"),
    };
    let partial = match sizes.partial {
        0 => String::new(),
        rows => format!("; {rows} rows of the time before that are left out"),
    };
    format!(
        "{lost} with {} for each thread; {} lose nothing{partial}{threads}",
        text::bytes(sizes.ring as u64),
        text::bytes(sizes.needed as u64),
    )
}
