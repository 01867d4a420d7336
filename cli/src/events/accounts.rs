//! What each domain accessed, was charged and had: names, units, tables.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tautline::eventlog::{Account, Accounts};

use super::source::Source;
use crate::failure::{Failure, say};
use crate::text;

/// Domains of each event that are shown as text; JSON has all.
const SHOWN: usize = 8;

/// What the counters of an event are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Nanos,
    Bytes,
    /// Millionths of all.
    Share,
    /// Nanoseconds a second, of which there may be no limit.
    Budget,
    /// How many, or whatever an application's event has.
    Number,
}

impl Unit {
    fn of(event: &str) -> Self {
        match event {
            "block.decided" | "block.encoded" | "block.decoded" | "path.measured"
            | "leech.worked" | "drive.answered" => Self::Nanos,
            "block.received" | "context.primed" | "drive.sent" => Self::Bytes,
            "load.measured" | "leech.intensity" => Self::Share,
            "budget.changed" => Self::Budget,
            _ if event.starts_with("worker.") => Self::Nanos,
            _ if event.starts_with("message.") || event.starts_with("dictionary.") => Self::Bytes,
            _ => Self::Number,
        }
    }

    fn text(self, amount: u64) -> String {
        let time = |nanos| text::fine_time(std::time::Duration::from_nanos(nanos));
        match self {
            Self::Nanos => time(amount),
            Self::Bytes => text::bytes(amount),
            Self::Share => format!("{:.1} %", amount as f64 / 1e4),
            Self::Budget if amount == u64::MAX => "no limit".to_owned(),
            Self::Budget => format!("{}/s", time(amount)),
            Self::Number => amount.to_string(),
        }
    }
}

/// By event, with the domain's name.
pub(super) type Named = BTreeMap<String, Vec<(String, Account)>>;

/// The accounts with the names that the log has; of each event those first that have most.
pub(super) fn named(accounts: &Accounts, source: &mut Source) -> Named {
    let mut named = Named::new();
    for (event, domain, account) in accounts.iter() {
        let domain = source.domain(domain).to_owned();
        let event = source.event(event).to_owned();
        named.entry(event).or_default().push((domain, account));
    }
    for of_event in named.values_mut() {
        of_event.sort_by_key(|(_, account)| std::cmp::Reverse(weight(account)));
    }
    named
}

/// What they are ordered by.
fn weight(account: &Account) -> u64 {
    match account {
        Account::Accessed { times: sum, .. } | Account::Charged { amount: sum, .. } => *sum,
        other => other.rows(),
    }
}

pub(super) fn as_json(named: &Named) -> Value {
    let value = |account: &Account| match *account {
        Account::Accessed { rows, times } => json!({ "rows": rows, "times": times }),
        Account::Charged { rows, amount } => json!({ "rows": rows, "charged": amount }),
        Account::Sampled {
            rows,
            first,
            latest,
            least,
            most,
            ..
        } => json!({
            "rows": rows, "first": first, "latest": latest, "least": least, "most": most,
        }),
        _ => json!({ "rows": account.rows() }),
    };
    let events = named.iter().map(|(event, domains)| {
        // Domains of one name are one.
        let domains = domains.iter().rev();
        let domains = domains.map(|(domain, account)| (domain.clone(), value(account)));
        (event.clone(), Value::Object(domains.collect()))
    });
    Value::Object(events.collect())
}

pub(super) fn print(named: &Named) -> Result<(), Failure> {
    table(
        named,
        ["event", "charged to", "rows", "in all"],
        |unit, account| match account {
            Account::Charged { rows, amount } => Some([rows.to_string(), unit.text(*amount)]),
            _ => None,
        },
    )?;
    table(
        named,
        ["event", "accessed by", "rows", "times"],
        |_, account| match account {
            Account::Accessed { rows, times } => Some([rows.to_string(), times.to_string()]),
            _ => None,
        },
    )?;
    table(
        named,
        ["event", "sampled of", "rows", "latest, least to most"],
        |unit, account| match account {
            Account::Sampled {
                rows,
                latest,
                least,
                most,
                ..
            } => {
                let [latest, least, most] = [latest, least, most].map(|it| unit.text(*it));
                Some([rows.to_string(), format!("{latest}, {least} to {most}")])
            }
            _ => None,
        },
    )
}

/// Those accounts that `cells` takes.
fn table(
    named: &Named,
    heads: [&str; 4],
    cells: impl Fn(Unit, &Account) -> Option<[String; 2]>,
) -> Result<(), Failure> {
    let [event, domain, rows, amount] = heads;
    say!("{event:<22} {domain:<26} {rows:>10}  {amount}")?;
    for (event, domains) in named {
        let unit = Unit::of(event);
        let taken = domains
            .iter()
            .filter_map(|(domain, account)| Some((domain, cells(unit, account)?)));
        let taken: Vec<_> = taken.collect();
        for (domain, [rows, amount]) in taken.iter().take(SHOWN) {
            say!("{event:<22} {domain:<26} {rows:>10}  {amount}")?;
        }
        if taken.len() > SHOWN {
            say!(
                "{event:<22} and {} others (--json has all)",
                taken.len() - SHOWN
            )?;
        }
    }
    say!("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_what_their_event_counts() {
        for (event, amount, text) in [
            ("worker.encoded", 1_500_000, "1.5 ms"),
            ("message.queued", 1_500, "1.5 kB"),
            ("leech.intensity", 250_000, "25.0 %"),
            ("budget.changed", u64::MAX, "no limit"),
            ("block.written", 7, "7"),
            ("own.event", 1_234, "1234"),
        ] {
            assert_eq!(Unit::of(event).text(amount), text, "{event}");
        }
    }
}
