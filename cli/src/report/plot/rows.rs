//! Rows with marks along a logarithmic axis: what is compared lies in one row.

use maud::{Markup, html};
use plotters::prelude::*;

use super::{Axis, Frame, INK, LOOKS, Look, OTHERS, SCALE, draw, legend, mark};
use crate::failure::Failure;

/// Of the whole plot, pixels.
const WIDTH: u32 = 1040;
/// For each mark of a row that has a line of its own, pixels.
const LANE: u32 = 10;

/// One mark, and how far it may be off.
pub(crate) struct Mark {
    /// Of the plot's looks; `None` for one of many others, which share a lane.
    pub(crate) look: Option<usize>,
    pub(crate) at: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// Marks with a name.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) marks: Vec<Mark>,
}

/// Rows over one axis.
pub(crate) struct RowPlot<'a> {
    pub(crate) title: &'a str,
    /// What the axis shows, with the unit.
    pub(crate) label: String,
    /// Where a line goes through all rows.
    pub(crate) line: Option<f64>,
    /// What the looks mean, and what the others are if there are any.
    pub(crate) names: &'a [String],
    pub(crate) others: Option<String>,
    /// Whether the marks of a row belong together, and are joined.
    pub(crate) is_joined: bool,
    pub(crate) rows: &'a [Row],
}

impl RowPlot<'_> {
    /// The figure; `None` without a mark that a logarithmic axis can show.
    pub(crate) fn figure(&self) -> Result<Option<Markup>, Failure> {
        let marks = self.rows.iter().flat_map(|row| &row.marks);
        let values = marks
            .flat_map(|mark| [mark.at, mark.from, mark.to])
            .chain(self.line);
        let values: Vec<f64> = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .collect();
        let (Some(low), Some(high)) = (
            values.iter().copied().reduce(f64::min),
            values.iter().copied().reduce(f64::max),
        ) else {
            return Ok(None);
        };
        let x = Axis::log(self.label.clone(), low, high);
        let y = Axis::rows(self.rows.iter().map(|row| row.name.as_str()));
        let lanes = if self.is_joined {
            1
        } else {
            self.names.len() + usize::from(self.others.is_some())
        };
        let row_height = (lanes as u32 * LANE + 14).max(26);
        let frame = Frame::of_rows(self.title, (WIDTH, row_height), &x, &y);
        let rows = self.rows.len() as f64;
        let svg = draw(&frame, |chart| {
            if let Some(line) = self.line {
                let at = x.place(line);
                chart.draw_series(LineSeries::new(
                    [(at, 0.0), (at, 1.0)],
                    INK.stroke_width(SCALE),
                ))?;
            }
            for (number, row) in self.rows.iter().enumerate() {
                let top = 1.0 - number as f64 / rows;
                if number > 0 {
                    let rule = [(0.0, top), (1.0, top)];
                    chart.draw_series(LineSeries::new(rule, super::GRID.stroke_width(SCALE)))?;
                }
                // Half a lane of room above and below.
                let lane = |lane: usize| top - (lane as f64 + 1.0) / (lanes as f64 + 1.0) / rows;
                if self.is_joined
                    && let (Some(first), Some(last)) = (row.marks.first(), row.marks.last())
                {
                    let ends = [first, last].map(|mark| (x.place(mark.at), lane(0)));
                    chart.draw_series(LineSeries::new(ends, super::SOFT.stroke_width(SCALE)))?;
                }
                for mark in &row.marks {
                    draw_mark(
                        chart,
                        mark,
                        lane(if self.is_joined {
                            0
                        } else {
                            mark.look.unwrap_or(lanes - 1)
                        }),
                        &x,
                    )?;
                }
            }
            Ok(())
        })?;
        let named = self
            .names
            .iter()
            .enumerate()
            .map(|(number, name)| (look_of(Some(number)), name.as_str()));
        let others = self.others.iter().map(|name| (OTHERS, name.as_str()));
        Ok(Some(html! {
            figure {
                figcaption { (self.title) }
                (svg)
                (legend(named.chain(others), false))
            }
        }))
    }
}

fn draw_mark(chart: &mut super::Chart<'_, '_>, one: &Mark, y: f64, x: &Axis) -> super::Drawn {
    let look = look_of(one.look);
    if one.at <= 0.0 {
        // A logarithmic axis has no place for it; the table says it.
        return Ok(());
    }
    if one.to > one.from && one.look.is_some() {
        let (from, to) = (x.place(one.from), x.place(one.to));
        chart.draw_series(LineSeries::new(
            [(from, y), (to, y)],
            look.color.stroke_width(SCALE + SCALE / 2),
        ))?;
    }
    mark(chart, (x.place(one.at), y), look)
}

fn look_of(number: Option<usize>) -> Look {
    number
        .and_then(|number| LOOKS.get(number))
        .copied()
        .unwrap_or(OTHERS)
}
