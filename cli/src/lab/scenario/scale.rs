//! A scenario with less of everything: `--quick`.

use super::Scenario;

impl Scenario {
    /// One round, with `quick` times the messages and times.
    pub(in crate::lab) fn quicken(&mut self) {
        let share = self.quick;
        let messages = |count: &mut u64| *count = (*count as f64 * share).ceil() as u64;
        let seconds = |time: &mut f64| *time *= share;
        self.rounds = 1;
        self.most_rounds = None;
        // Samples and the time that loads have to begin become shorter, but not so much.
        self.sample = (self.sample * share.sqrt()).max(super::check::SAMPLE.0);
        self.settle *= share.sqrt();
        for traffic in &mut self.traffic {
            messages(&mut traffic.messages);
            for content in &mut traffic.content {
                messages(&mut content.from_message);
            }
        }
        for change in self.links.iter_mut().flat_map(|link| &mut link.changes) {
            change.at.iter_mut().for_each(seconds);
            change.at_message.iter_mut().for_each(messages);
        }
        for load in &mut self.loads {
            for time in [&mut load.from, &mut load.until] {
                time.iter_mut().for_each(seconds);
            }
            for message in [&mut load.from_message, &mut load.until_message] {
                message.iter_mut().for_each(messages);
            }
        }
        for figure in &mut self.figures {
            for message in [&mut figure.from_message, &mut figure.until_message] {
                message.iter_mut().for_each(messages);
            }
        }
    }
}
