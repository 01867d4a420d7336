//! A scenario's traffic as a workload.

use std::path::Path;
use std::time::Duration;

use tautline::loadgen::workload::{
    Arrivals, Change, Content, Corpora, Mix, StreamKind, Workload, WorkloadError,
};

use super::protocol::Drive;
use super::scenario::ContentSpec;
use crate::failure::Failure;

/// What a node is to send; files are those of the order's folder.
pub(super) fn workload(order: &Drive) -> Result<Workload, Failure> {
    let mut corpora = Corpora::in_directory(&order.beside);
    let arrivals = Arrivals::parse(&order.arrivals, &mut corpora)
        .map_err(|error| Failure::of("arrivals", &error))?;
    let mix = mix(&order.content, &mut corpora)?;
    let kind = StreamKind::new(order.name.clone(), arrivals, mix).messages(Some(order.messages));
    let workload =
        Workload::new(vec![kind]).map_err(|error: WorkloadError| Failure::of("", &error))?;
    Ok(workload
        .length(Duration::from_secs_f64(order.limit))
        .seed(order.seed))
}

fn mix(specs: &[ContentSpec], corpora: &mut Corpora<'_>) -> Result<Mix, Failure> {
    let mut content = |spec: &ContentSpec| {
        Content::parse(&spec.of, corpora).map_err(|error| Failure::of("content", &error))
    };
    let Some((first, rest)) = specs.split_first() else {
        return Err(Failure::Error("no content".to_owned()));
    };
    let mut mix = Mix::of(content(first)?);
    for spec in rest {
        let change = Change::Message(spec.from_message);
        mix = mix
            .then(change, vec![(1.0, content(spec)?)])
            .map_err(|error| Failure::of("content", &error))?;
    }
    Ok(mix)
}

/// All orders of a scenario, as they will be given; `to` has yet to be found.
pub(super) fn orders(scenario: &super::scenario::Scenario, beside: &Path) -> Vec<Drive> {
    let orders = scenario.traffic.iter().enumerate();
    let orders = orders.map(|(number, traffic)| Drive {
        name: traffic.name.clone(),
        to: String::new(),
        messages: traffic.messages,
        limit: scenario.limit,
        arrivals: traffic.arrivals.clone(),
        content: traffic.content.clone(),
        beside: beside.to_owned(),
        seed: scenario.seed.wrapping_add(number as u64),
    });
    orders.collect()
}
