//! Bars from zero, one a row.

use maud::{Markup, html};
use plotters::prelude::*;

use super::{Axis, Frame, INK, LOOKS, SCALE, draw};
use crate::failure::Failure;

const WIDTH: u32 = 700;
/// Of one row, pixels.
const HEIGHT: u32 = 24;

/// Bars with their names; the unit stands in the label.
pub(crate) struct BarPlot<'a> {
    pub(crate) title: &'a str,
    pub(crate) label: String,
    pub(crate) bars: &'a [(String, f64)],
}

impl BarPlot<'_> {
    pub(crate) fn figure(&self) -> Result<Markup, Failure> {
        let values = || {
            self.bars
                .iter()
                .map(|(_, value)| *value)
                .filter(|value| value.is_finite())
        };
        let x = Axis::from_zero(
            self.label.clone(),
            values().fold(0.0, f64::min),
            values().fold(0.0, f64::max),
        );
        let y = Axis::rows(self.bars.iter().map(|(name, _)| name.as_str()));
        let frame = Frame::of_rows(self.title, (WIDTH, HEIGHT), &x, &y);
        let rows = self.bars.len() as f64;
        let zero = x.place(0.0);
        let svg = draw(&frame, |chart| {
            for (number, (_, value)) in self.bars.iter().enumerate() {
                let middle = 1.0 - (number as f64 + 0.5) / rows;
                let end = x.place(*value);
                let (from, to) = (end.min(zero), end.max(zero));
                let half = 0.35 / rows;
                let bar = Rectangle::new(
                    [(from, middle - half), (to, middle + half)],
                    LOOKS[1].color.filled(),
                );
                chart.plotting_area().draw(&bar)?;
            }
            let axis = [(zero, 0.0), (zero, 1.0)];
            chart.draw_series(LineSeries::new(axis, INK.stroke_width(SCALE)))?;
            Ok(())
        })?;
        Ok(html! { figure { figcaption { (self.title) } (svg) } })
    }
}
