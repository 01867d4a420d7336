//! The times of a condition's policies, relative to the best static stateless arm of each corpus.

use maud::Markup;

use super::Condition;
use super::judge::{Compared, geometric_mean};
use crate::failure::Failure;
use crate::report::plot::{LOOKS, Mark, Row, RowPlot};

/// Corpora in one figure: more do not fit a page.
const ROWS: usize = 16;

/// One figure for each so many corpora.
pub(super) fn figures(condition: &Condition, corpora: &[Compared]) -> Result<Vec<Markup>, Failure> {
    let (named, others) = named(corpora);
    let mut figures = Vec::new();
    for some in corpora.chunks(ROWS) {
        let rows: Vec<Row> = some
            .iter()
            .filter_map(|corpus| row(corpus, &named))
            .collect();
        let what = if condition.judges_total() {
            "time for all messages"
        } else {
            "mean time of a message"
        };
        let plot = RowPlot {
            title: &format!(
                "{condition}: {what} relative to the best static stateless arm of each corpus; marks are medians, lines go from the least to the greatest pass"
            ),
            label: "time / time of the best static stateless arm (log; smaller is better)"
                .to_owned(),
            line: Some(1.0),
            names: &named,
            others: (others > 0).then(|| format!("{others} other policies, without their ranges")),
            is_joined: false,
            rows: &rows,
        };
        if !rows.is_empty() {
            figures.extend(plot.figure()?);
        }
    }
    Ok(figures)
}

/// Which policies have a mark of their own, in a fixed order, and how many have not: those that choose first, then the best.
fn named(corpora: &[Compared]) -> (Vec<String>, usize) {
    let mut known: Vec<(bool, String, Vec<f64>)> = Vec::new();
    for corpus in corpora {
        for policy in &corpus.policies {
            let at = known
                .iter()
                .position(|(_, name, _)| *name == policy.name)
                .unwrap_or_else(|| {
                    known.push((!policy.class.chooses(), policy.name.clone(), Vec::new()));
                    known.len() - 1
                });
            known[at].2.extend(
                corpus
                    .reference()
                    .map(|reference| policy.time() / reference),
            );
        }
    }
    let place = |times: &[f64]| geometric_mean(times).unwrap_or(f64::INFINITY);
    known.sort_by(|left, right| {
        left.0
            .cmp(&right.0)
            .then(place(&left.2).total_cmp(&place(&right.2)))
    });
    let others = known.len().saturating_sub(LOOKS.len());
    (
        known
            .into_iter()
            .take(LOOKS.len())
            .map(|(_, name, _)| name)
            .collect(),
        others,
    )
}

fn row(corpus: &Compared, named: &[String]) -> Option<Row> {
    let reference = corpus.reference()?;
    let marks = corpus.policies.iter().map(|policy| {
        let (from, to) = policy.range();
        Mark {
            look: named.iter().position(|name| *name == policy.name),
            at: policy.time() / reference,
            from: from / reference,
            to: to / reference,
        }
    });
    Some(Row {
        name: corpus.name.clone(),
        marks: marks.collect(),
    })
}
