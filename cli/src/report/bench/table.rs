//! Tables of a bench.

use maud::{Markup, html};

use super::judge::{Class, Compared, Policy, geometric_mean};
use super::{Judged, plot};
use crate::failure::Failure;
use crate::report::number::{self, cell, count, digits, one_size, one_time, percent};
use crate::report::page::{table, text_table};

/// Policies that choose, of all conditions, in the order in which they come.
fn adaptive<'a>(corpora: impl Iterator<Item = &'a Compared>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for policy in corpora.flat_map(|corpus| &corpus.policies) {
        if policy.class.chooses() && !names.contains(&policy.name.as_str()) {
            names.push(&policy.name);
        }
    }
    names.sort_unstable();
    names
}

fn efficiencies(corpora: &[Compared], name: &str) -> Vec<f64> {
    let policies = corpora.iter().flat_map(|corpus| &corpus.policies);
    policies
        .filter(|policy| policy.name == name)
        .filter_map(|policy| policy.efficiency)
        .collect()
}

/// Efficiency of each policy that chooses, under all conditions.
pub(super) fn overview(judged: &[Judged]) -> Markup {
    let names = adaptive(judged.iter().flat_map(|one| &one.corpora));
    let mut heads = vec!["condition".to_owned(), "corpora".to_owned()];
    for name in &names {
        heads.push(format!("{name}: efficiency, geometric mean"));
        heads.push(format!("{name}: least"));
        heads.push(format!("{name}: greatest"));
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = judged.iter().map(|one| {
        let mut row = vec![one.condition.to_string(), one.corpora.len().to_string()];
        for name in &names {
            let values = efficiencies(&one.corpora, name);
            row.push(cell(geometric_mean(&values)));
            row.push(cell(values.iter().copied().reduce(f64::min)));
            row.push(cell(values.iter().copied().reduce(f64::max)));
        }
        row
    });
    html! {
        p { "Efficiency over the best static stateless arm, over the corpora of each condition." }
        (text_table(&heads, 1, rows))
    }
}

/// All of one condition.
pub(super) fn condition(judged: &Judged) -> Result<Markup, Failure> {
    let what = if judged.condition.judges_total() {
        "the time from the first message's sending to the last one's receipt"
    } else {
        "the mean time of a message from its sending to its receipt"
    };
    Ok(html! {
        p { "Judged is " (what) "." }
        @for warning in &judged.warnings { p.warning { (warning) "." } }
        (summary(&judged.corpora))
        @for figure in plot::figures(&judged.condition, &judged.corpora)? { (figure) }
        @for corpus in &judged.corpora { (all_of(judged, corpus)) }
    })
}

/// A line for each corpus: what it is judged by, and how those that choose do.
fn summary(corpora: &[Compared]) -> Markup {
    let names = adaptive(corpora.iter());
    let has_history = corpora.iter().any(|corpus| {
        corpus
            .policies
            .iter()
            .any(|policy| policy.class == Class::History)
    });
    let mut heads = vec![
        "corpus".to_owned(),
        "best static stateless arm".to_owned(),
        "its time".to_owned(),
    ];
    if has_history {
        heads.push("best static arm of all".to_owned());
        heads.push("its efficiency".to_owned());
    }
    for name in &names {
        heads.push(format!("{name}: efficiency"));
        heads.push(format!("{name}: of its passes"));
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for corpus in corpora {
        let best = corpus.best.map(|best| &corpus.policies[best]);
        let mut row = vec![
            corpus.name.clone(),
            best.map_or_else(|| "none was run".to_owned(), |best| best.name.clone()),
            best.map_or_else(|| "-".to_owned(), |best| one_time(best.time())),
        ];
        if has_history {
            let best = corpus.best_of_all.map(|best| &corpus.policies[best]);
            row.push(best.map_or_else(|| "-".to_owned(), |best| best.name.clone()));
            row.push(cell(best.and_then(|best| best.efficiency)));
        }
        for name in &names {
            let policy = corpus.policies.iter().find(|policy| policy.name == *name);
            row.push(cell(policy.and_then(|policy| policy.efficiency)));
            let range = policy.zip(corpus.reference()).map(|(policy, reference)| {
                let (least, greatest) = policy.range();
                format!(
                    "{} to {}",
                    digits(reference / greatest),
                    digits(reference / least)
                )
            });
            row.push(range.unwrap_or_else(|| "-".to_owned()));
        }
        rows.push(row);
    }
    if corpora.len() > 1 {
        let mut row = vec!["geometric mean".to_owned(), String::new(), String::new()];
        if has_history {
            row.extend([String::new(), String::new()]);
        }
        for name in &names {
            row.push(cell(geometric_mean(&efficiencies(corpora, name))));
            row.push(String::new());
        }
        rows.push(row);
    }
    text_table(&heads, 2, rows.into_iter())
}

/// Every policy of one corpus.
fn all_of(judged: &Judged, corpus: &Compared) -> Markup {
    let judges_total = judged.condition.judges_total();
    let policies = &corpus.policies;
    let time = number::time(policies.iter().map(Policy::time));
    let whole = number::time(
        policies
            .iter()
            .map(|policy| policy.median(|pass| pass.seconds)),
    );
    let message = number::time(
        policies
            .iter()
            .map(|policy| policy.median(|pass| pass.mean) / 1e6),
    );
    let cpu = number::time(
        policies
            .iter()
            .map(|policy| policy.median(|pass| pass.sender_cpu)),
    );
    let wire = number::bytes(
        policies
            .iter()
            .map(|policy| policy.median(|pass| pass.wire_bytes as f64)),
    );
    let other = if judges_total {
        format!("message, mean, {}", message.name)
    } else {
        format!("all messages, {}", whole.name)
    };
    let heads = [
        "policy".to_owned(),
        "kind".to_owned(),
        "passes".to_owned(),
        format!(
            "{}, {}",
            if judges_total {
                "time"
            } else {
                "message, mean"
            },
            time.name
        ),
        format!("least to greatest, {}", time.name),
        "efficiency".to_owned(),
        "over best static".to_owned(),
        other,
        format!("message, p50, {}", message.name),
        format!("message, p99, {}", message.name),
        format!("wire, {}", wire.name),
        "ratio, plain/wire".to_owned(),
        format!("sender CPU, {}", cpu.name),
        format!("receiver CPU, {}", cpu.name),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = policies.iter().enumerate().map(|(number, policy)| {
        let (least, greatest) = policy.range();
        let wire_bytes = policy.median(|pass| pass.wire_bytes as f64);
        let seconds = policy.median(|pass| pass.seconds);
        let mean = policy.median(|pass| pass.mean) / 1e6;
        let name = if corpus.best == Some(number) {
            html! { strong { (policy.name) } " *" }
        } else {
            html! { (policy.name) }
        };
        let texts = [
            policy.class.name().to_owned(),
            policy.passes.len().to_string(),
            time.digits(policy.time()),
            format!("{} to {}", time.digits(least), time.digits(greatest)),
            cell(policy.efficiency),
            cell(policy.efficiency_of_all),
            if judges_total {
                message.digits(mean)
            } else {
                whole.digits(seconds)
            },
            message.digits(policy.median(|pass| pass.p50) / 1e6),
            message.digits(policy.median(|pass| pass.p99) / 1e6),
            wire.digits(wire_bytes),
            cell((wire_bytes > 0.0).then(|| corpus.plain_bytes as f64 / wire_bytes)),
            cpu.digits(policy.median(|pass| pass.sender_cpu)),
            cpu.digits(policy.median(|pass| pass.receiver_cpu)),
        ];
        std::iter::once(name)
            .chain(texts.into_iter().map(|text| html! { (text) }))
            .collect()
    });
    html! {
        h4 { (corpus.name) ": " (corpus.messages) " messages, " (one_size(corpus.plain_bytes)) }
        (table(&heads, 2, rows))
        @if corpus.best.is_some() {
            p.note { "* the best static stateless arm: what efficiency is over." }
        } @else {
            p.note { "No static stateless arm was run: there is nothing that efficiency could be over." }
        }
        (choices(policies))
    }
}

/// What those that choose have chosen, and whom the budget has kept from it.
fn choices(policies: &[Policy]) -> Markup {
    /// More would not be read.
    const NAMED: usize = 6;

    let is_spent = |policy: &&Policy| policy.out_of_budget >= 0.01;
    let chooses = |policy: &&Policy| policy.class.chooses();
    if !policies
        .iter()
        .any(|policy| chooses(&policy) || is_spent(&policy))
    {
        return html! {};
    }
    html! {
        ul.note {
            @for policy in policies.iter().filter(chooses) {
                li {
                    (policy.name) ": "
                    @for (number, (codec, share)) in policy.codecs.iter().take(NAMED).enumerate() {
                        @if number > 0 { ", " } (codec) " " (percent(*share)) " %"
                    }
                    @if policy.codecs.len() > NAMED { ", " (policy.codecs.len() - NAMED) " more" }
                    " of the plain bytes (mean of its passes); " (count(policy.median(|pass| pass.switches as f64))) " switches, regret "
                    (one_time(policy.median(|pass| pass.regret))) " (medians)"
                }
            }
            @for policy in policies.iter().filter(is_spent) {
                li { (policy.name) ": the codec budget was spent for " (percent(policy.out_of_budget)) " % of its blocks, which left as they were" }
            }
        }
    }
}
