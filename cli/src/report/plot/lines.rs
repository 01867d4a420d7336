//! Lines over time.

use maud::{Markup, html};
use plotters::prelude::*;

use super::{Axis, Frame, LOOKS, SCALE, draw, legend};
use crate::failure::Failure;
use crate::report::number::{Unit, one_time, so_many};
use crate::report::thin::Line;

/// Of the plots that stand in pairs, and of those that stand alone, pixels.
const SMALL: (u32, u32) = (500, 230);
const WIDE: (u32, u32) = (1040, 280);
/// Where points are so many times as far apart as usual, nothing is drawn between them.
const GAP: f64 = 8.0;

/// One line.
pub(crate) struct TimeLine<'a> {
    pub(crate) name: &'a str,
    /// Times in ns since the origin.
    pub(crate) line: &'a Line,
}

/// Up to as many lines as there are colours, on one pair of axes.
pub(crate) struct LinePlot<'a> {
    pub(crate) title: &'a str,
    /// What the values are, with the unit.
    pub(crate) label: String,
    /// What a value is multiplied by to be in that unit.
    pub(crate) factor: f64,
    /// The first and the last time of all plots that are to be compared, ns, and the unit they are told in.
    pub(crate) span: (u64, u64),
    pub(crate) unit: Unit,
    pub(crate) is_small: bool,
    pub(crate) lines: Vec<TimeLine<'a>>,
}

impl LinePlot<'_> {
    /// The figure with its legend and what has been left out; `None` without a point.
    pub(crate) fn figure(&self) -> Result<Option<Markup>, Failure> {
        let ranges = self.lines.iter().filter_map(|line| line.line.range());
        let Some((low, high)) = ranges.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        else {
            return Ok(None);
        };
        if low == 0.0 && high == 0.0 {
            return Ok(Some(
                html! { p.note { (self.title) ": 0 throughout, " (so_many(self.points() as usize, "value", "values")) } },
            ));
        }
        let (low, high) = (low * self.factor, high * self.factor);
        // What spans more than two powers of ten shows nothing but its peaks on a linear axis.
        let y = if low > 0.0 && high / low > 100.0 {
            Axis::log(format!("{} (log)", self.label), low, high)
        } else {
            Axis::from_zero(self.label.clone(), low, high)
        };
        let seconds = |nanos: u64| self.unit.of(nanos.saturating_sub(self.span.0) as f64 / 1e9);
        let x = Axis::linear(self.unit.axis(), 0.0, seconds(self.span.1));
        let (width, height) = if self.is_small { SMALL } else { WIDE };
        let frame = Frame {
            title: self.title,
            width,
            height,
            left: 68,
            x: &x,
            y: &y,
            is_rows: false,
        };
        let svg = draw(&frame, |chart| {
            for (look, line) in LOOKS.iter().zip(&self.lines) {
                let points = line.line.drawn();
                for part in parts(&points) {
                    let place = |(at, value): &(u64, f64)| {
                        (x.place(seconds(*at)), y.place(value * self.factor))
                    };
                    let style = look.color.stroke_width(SCALE + SCALE / 2);
                    if let [alone] = part {
                        chart.plotting_area().draw(&Circle::new(
                            place(alone),
                            2 * SCALE,
                            look.color.filled(),
                        ))?;
                    } else {
                        chart.draw_series(LineSeries::new(part.iter().map(place), style))?;
                    }
                }
            }
            Ok(())
        })?;
        let names = LOOKS
            .iter()
            .zip(&self.lines)
            .map(|(look, line)| (*look, line.name));
        Ok(Some(html! {
            figure {
                figcaption { (self.title) (self.thinned()) }
                (svg)
                (legend(names, true))
            }
        }))
    }

    fn points(&self) -> u64 {
        self.lines.iter().map(|line| line.line.points()).sum()
    }

    fn thinned(&self) -> String {
        let spans = self.lines.iter().filter_map(|line| line.line.thinned());
        let points = self.points();
        spans.max().map_or_else(String::new, |span| {
            let each = if self.unit == Unit::MESSAGES {
                format!("{span} messages")
            } else {
                one_time(span as f64 / 1e9)
            };
            format!("; thinned from {points} points: the least and the greatest of each {each}")
        })
    }
}

/// Without what lies between points that are far apart.
fn parts(points: &[(u64, f64)]) -> impl Iterator<Item = &[(u64, f64)]> {
    let mut steps: Vec<u64> = points
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    steps.sort_unstable();
    // Both ends of a span are close to each other: the usual distance is that of nine in ten.
    let usual = steps.get(steps.len() * 9 / 10).copied().unwrap_or(0).max(1) as f64;
    points.chunk_by(move |before, after| ((after.0 - before.0) as f64) <= GAP * usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_gaps_where_nothing_was_measured() {
        let points: Vec<_> = (0..100u64)
            .filter(|n| !(40..70).contains(n))
            .map(|n| (n * 10, 1.0))
            .collect();
        let parts: Vec<_> = parts(&points).map(<[_]>::len).collect();
        assert_eq!(parts, [40, 30]);
        assert_eq!(super::parts(&[]).count(), 0);
        assert_eq!(super::parts(&[(5, 1.0)]).count(), 1);
    }
}
