//! Strips over time: one for each name, as high as its share of each span.

use maud::{Markup, html};
use plotters::prelude::*;

use super::{Axis, Frame, GRID, LOOKS, SCALE, draw};
use crate::failure::Failure;
use crate::report::number::Unit;

const WIDTH: u32 = 1040;
/// Of one strip, pixels.
const HEIGHT: u32 = 30;

/// One name's shares.
pub(crate) struct Strip {
    pub(crate) name: String,
    /// From, to (ns) and the share, 0 to 1; without those that are 0.
    pub(crate) shares: Vec<(u64, u64, f64)>,
}

/// Strips one below the other.
pub(crate) struct StripPlot<'a> {
    pub(crate) title: &'a str,
    pub(crate) caption: String,
    pub(crate) span: (u64, u64),
    pub(crate) unit: Unit,
    pub(crate) strips: &'a [Strip],
}

impl StripPlot<'_> {
    pub(crate) fn figure(&self) -> Result<Markup, Failure> {
        let seconds = |nanos: u64| self.unit.of(nanos.saturating_sub(self.span.0) as f64 / 1e9);
        let x = Axis::linear(self.unit.axis(), 0.0, seconds(self.span.1));
        let y = Axis::rows(self.strips.iter().map(|strip| strip.name.as_str()));
        let frame = Frame::of_rows(self.title, (WIDTH, HEIGHT), &x, &y);
        let rows = self.strips.len() as f64;
        // At least so wide that it is seen.
        let least = 1.0 / f64::from(WIDTH);
        let svg = draw(&frame, |chart| {
            for (number, strip) in self.strips.iter().enumerate() {
                let bottom = 1.0 - (number as f64 + 1.0) / rows;
                chart.draw_series(LineSeries::new(
                    [(0.0, bottom), (1.0, bottom)],
                    GRID.stroke_width(SCALE),
                ))?;
                for (from, to, share) in &strip.shares {
                    let from = x.place(seconds(*from));
                    let to = x.place(seconds(*to)).max(from + least);
                    let top = bottom + 0.92 * share.clamp(0.0, 1.0) / rows;
                    let bar = Rectangle::new([(from, bottom), (to, top)], LOOKS[1].color.filled());
                    chart.plotting_area().draw(&bar)?;
                }
            }
            Ok(())
        })?;
        Ok(html! { figure { figcaption { (self.title) "; " (self.caption) } (svg) } })
    }
}
