//! What a dictionary is worth, as people and programs read it.

use bytes::Bytes;
use serde_json::{Value, json};
use tautline::codecs::{Arm, Codecs};
use tautline::dictionary::{Dictionary, Evaluation, evaluate};

use crate::failure::{Failure, say};
use crate::text;

pub(super) fn of(
    codecs: &mut Codecs,
    dictionary: &Dictionary,
    messages: &[Bytes],
    arms: &[Arm],
) -> Result<Vec<Evaluation>, Failure> {
    arms.iter()
        .map(|&arm| Ok(evaluate(codecs, dictionary, messages, arm)?))
        .collect()
}

pub(super) fn print(worth: &[Evaluation]) -> Result<(), Failure> {
    if let Some(any) = worth.first() {
        say!(
            "  on {} messages of {}, each by itself; sending the dictionary takes {}:",
            any.messages,
            text::bytes(any.plain as u64),
            text::bytes(any.cost as u64)
        )?;
    }
    say!(
        "  {:<10} {:>8} {:>8} {:>15} {:>22}",
        "arm",
        "without",
        "with",
        "saved a message",
        "pays for itself after"
    )?;
    for evaluation in worth {
        let even = match evaluation.break_even_messages() {
            Some(messages) => format!("{messages} messages"),
            None => "never".to_owned(),
        };
        say!(
            "  {:<10} {:>8} {:>8} {:>13.1} B {:>22}",
            evaluation.arm.to_string(),
            text::ratio(Some(evaluation.ratio_without())),
            text::ratio(Some(evaluation.ratio_with())),
            evaluation.saved_per_message(),
            even
        )?;
    }
    Ok(())
}

pub(super) fn json(evaluation: &Evaluation) -> Value {
    json!({
        "arm": evaluation.arm.to_string(),
        "messages": evaluation.messages,
        "plain_bytes": evaluation.plain,
        "ratio_without": evaluation.ratio_without(),
        "ratio_with": evaluation.ratio_with(),
        "sending_bytes": evaluation.cost,
        "break_even_messages": evaluation.break_even_messages(),
    })
}
