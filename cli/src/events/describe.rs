//! Rows as text, and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tautline::control::{BudgetRate, Reason};
use tautline::loadgen::events as load;
use tautline::session::ContextChange;
use tautline::transport::events::{Event, Messages};

use super::source::{Source, Timed};

/// One row as one line: seconds of the system's monotonic clock, event, domain and what the event says, or all that as a JSON object.
pub(super) fn line(source: &mut Source, row: &Timed, json: bool) -> String {
    let event = row.row.event.map(|event| source.event(event).to_owned());
    let domain = row
        .row
        .domain
        .map(|domain| source.domain(domain).to_owned());
    let facts = match (&row.event, &row.load) {
        (Some(event), _) => facts(event),
        (None, Some(event)) => facts_of_load(event),
        (None, None) => bare(row),
    };
    if json {
        let mut object = Map::new();
        object.insert("at_ns".to_owned(), json!(row.at));
        object.insert("event".to_owned(), json!(event));
        object.insert("domain".to_owned(), json!(domain));
        let facts = facts.into_iter().filter(|(_, value)| !value.is_null());
        object.extend(facts.map(|(name, value)| (name.to_owned(), value)));
        return Value::Object(object).to_string();
    }
    let mut line = format!(
        "{:.6} {:<18} {:<16}",
        row.at as f64 * 1e-9,
        event.as_deref().unwrap_or("-"),
        domain.as_deref().unwrap_or("-"),
    );
    for (name, value) in facts {
        // Writing to a String cannot fail.
        let _ = match value {
            Value::Null => Ok(()),
            Value::String(text) => write!(line, " {name}={text}"),
            other => write!(line, " {name}={other}"),
        };
    }
    line
}

type Facts = Vec<(&'static str, Value)>;

fn nanos(time: Duration) -> Value {
    json!(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn rate(rate: Option<BudgetRate>) -> Value {
    rate.map_or(json!("unlimited"), |rate| json!(rate.as_nanos_per_sec()))
}

/// What an application's own row says, or one that lacks fields.
fn bare(row: &Timed) -> Facts {
    vec![
        ("counter", json!(row.row.counter)),
        ("first", json!(row.row.first)),
        ("second", json!(row.row.second)),
        ("third", json!(row.row.third)),
    ]
}

fn of_messages(messages: &Messages, block: Option<u64>) -> Facts {
    vec![
        ("connection", json!(messages.connection)),
        ("stream", json!(messages.stream)),
        ("message", json!(messages.first)),
        ("messages", json!(messages.count)),
        ("bytes", json!(messages.bytes)),
        ("block", json!(block)),
    ]
}

fn of_blocks(connection: u32, first: u64, count: u64) -> Facts {
    vec![
        ("connection", json!(connection)),
        ("block", json!(first)),
        ("blocks", json!(count)),
    ]
}

fn of_message(message: &load::OfMessage) -> Facts {
    vec![
        ("kind", json!(message.kind)),
        ("stream", json!(message.stream)),
        ("intended_ns", nanos(message.intended)),
    ]
}

fn facts_of_load(event: &load::Event) -> Facts {
    let of_message = |message, more: &[(&'static str, Value)]| {
        let mut facts = of_message(message);
        facts.extend_from_slice(more);
        facts
    };
    match event {
        load::Event::Intensity { old, new } => vec![
            ("old", json!(old.share())),
            ("intensity", json!(new.share())),
        ],
        load::Event::Worked {
            intensity,
            processor,
            wall,
            operations,
        } => vec![
            ("processor_ns", nanos(*processor)),
            ("wall_ns", nanos(*wall)),
            ("operations", json!(operations)),
            ("intensity", json!(intensity.share())),
        ],
        load::Event::Due { message, late } => of_message(message, &[("late_ns", nanos(*late))]),
        load::Event::Sent {
            message,
            bytes,
            after,
        } => {
            let more = [("bytes", json!(bytes)), ("after_ns", nanos(*after))];
            of_message(message, &more)
        }
        load::Event::Late { message, bytes } => of_message(message, &[("bytes", json!(bytes))]),
        load::Event::Unsent { kind, messages } => {
            vec![("kind", json!(kind)), ("messages", json!(messages))]
        }
        load::Event::Answered {
            message,
            from_intended,
            from_sending,
        } => {
            let more = [
                ("from_intended_ns", nanos(*from_intended)),
                ("from_sending_ns", nanos(*from_sending)),
            ];
            of_message(message, &more)
        }
        _ => Vec::new(),
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "one arm for each event, of a few lines"
)]
fn facts(event: &Event) -> Facts {
    match event {
        Event::Queued { messages, waited } => {
            let mut facts = of_messages(messages, None);
            facts.push(("waited_ns", nanos(*waited)));
            facts
        }
        Event::Encoded { messages, block } | Event::Decoded { messages, block } => {
            of_messages(messages, Some(*block))
        }
        Event::Delivered { messages } => of_messages(messages, None),
        Event::Decided {
            connection,
            stream,
            block,
            arming,
        } => vec![
            ("connection", json!(connection)),
            ("stream", json!(stream)),
            ("block", json!(block)),
            ("arm", json!(arming.arm.to_string())),
            ("reason", json!(arming.reason.map(Reason::name))),
            ("expected_ns", nanos(arming.expected)),
            ("budget_permille", json!(arming.budget_permille)),
            ("budget_left", json!(arming.budget_left)),
        ],
        Event::BlockEncoded {
            connection,
            block,
            arm,
            plain_len,
            wire_len,
            encode,
        } => vec![
            ("connection", json!(connection)),
            ("block", json!(block)),
            ("arm", json!(arm.to_string())),
            ("plain", json!(plain_len)),
            ("wire", json!(wire_len)),
            ("encode_ns", nanos(*encode)),
        ],
        Event::Written {
            connection,
            first,
            count,
        }
        | Event::Acked {
            connection,
            first,
            count,
        } => of_blocks(*connection, *first, *count),
        Event::Received {
            connection,
            block,
            codec,
            body_len,
        } => vec![
            ("connection", json!(connection)),
            ("block", json!(block)),
            ("codec", json!(codec.to_string())),
            ("body", json!(body_len)),
        ],
        Event::BlockDecoded {
            connection,
            block,
            plain_len,
            decode,
        } => vec![
            ("connection", json!(connection)),
            ("block", json!(block)),
            ("plain", json!(plain_len)),
            ("decode_ns", nanos(*decode)),
        ],
        Event::Budget {
            connection,
            old,
            new,
        } => vec![
            ("connection", json!(connection)),
            ("old_ns_per_s", rate(*old)),
            ("new_ns_per_s", rate(*new)),
        ],
        Event::Load { load, budget } => {
            vec![("load", json!(load)), ("budget_ns_per_s", rate(*budget))]
        }
        Event::Path {
            connection,
            rtt,
            rtt_min,
            link_rate,
        } => vec![
            ("connection", json!(connection)),
            ("rtt_ns", rtt.map_or(Value::Null, nanos)),
            ("rtt_min_ns", rtt_min.map_or(Value::Null, nanos)),
            ("link_bytes_per_s", json!(link_rate)),
        ],
        Event::Context {
            connection,
            change,
            received,
            slot,
            group,
            arm,
        } => vec![
            ("connection", json!(connection)),
            ("received", json!(received)),
            ("slot", json!(slot)),
            ("group", json!(group)),
            ("arm", json!(arm.to_string())),
            (
                "bytes",
                match change {
                    ContextChange::Primed { bytes } => json!(bytes),
                    _ => Value::Null,
                },
            ),
        ],
        Event::Dictionary {
            connection,
            received,
            number,
            len,
            prefix,
            ..
        } => vec![
            ("connection", json!(connection)),
            ("received", json!(received)),
            ("number", json!(number)),
            ("bytes", json!(len)),
            ("name", json!(format!("{prefix:016x}"))),
        ],
        Event::Worker { time, waited } => {
            vec![("ns", nanos(*time)), ("waited_ns", nanos(*waited))]
        }
        _ => Vec::new(),
    }
}
