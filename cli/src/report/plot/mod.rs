//! Plots as SVG that stands within the page. Colours are those of `style.css`, which has others for the dark.

mod axis;
mod bars;
mod lines;
mod rows;
mod strips;

use maud::{Markup, PreEscaped, html};
use plotters::chart::ChartContext;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

pub(super) use self::axis::Axis;
pub(super) use self::bars::BarPlot;
pub(super) use self::lines::{LinePlot, TimeLine};
pub(super) use self::rows::{Mark, Row, RowPlot};
pub(super) use self::strips::{Strip, StripPlot};
use crate::failure::Failure;

/// Pixels of the drawing for one of the page: its coordinates are whole numbers, and lines are finer so.
const SCALE: u32 = 2;
/// 12 pixels of the page: the library makes a font's size smaller by a factor of 1.24.
const FONT: f64 = 12.0 * 1.24 * SCALE as f64;
/// Of text and axes, of the grid, and of what does not matter so much.
const INK: RGBColor = RGBColor(0x1a, 0x1a, 0x1a);
const GRID: RGBColor = RGBColor(0xd9, 0xd9, 0xd9);
const SOFT: RGBColor = RGBColor(0x8a, 0x8a, 0x8a);

/// How something is marked: by a colour of Okabe and Ito's, which people who do not see all colours tell apart, and by a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    color: RGBColor,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Down,
    Ring,
    Cross,
    Dot,
}

const fn look(color: RGBColor, shape: Shape) -> Look {
    Look { color, shape }
}

/// As many as are told apart at a glance.
pub(super) const LOOKS: [Look; 7] = [
    look(RGBColor(0xd5, 0x5e, 0x00), Shape::Circle),
    look(RGBColor(0x00, 0x72, 0xb2), Shape::Square),
    look(RGBColor(0x00, 0x9e, 0x73), Shape::Triangle),
    look(RGBColor(0xcc, 0x79, 0xa7), Shape::Diamond),
    look(RGBColor(0xe6, 0x9f, 0x00), Shape::Down),
    look(RGBColor(0x56, 0xb4, 0xe9), Shape::Ring),
    look(INK, Shape::Cross),
];
/// For all beyond those.
pub(super) const OTHERS: Look = look(SOFT, Shape::Dot);

type Svg<'a> = SVGBackend<'a>;
type Chart<'a, 'b> = ChartContext<'a, Svg<'b>, Cartesian2d<Along, Along>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The outside of a plot, in pixels of the page.
struct Frame<'a> {
    /// What is to be seen, for those who do not see it.
    title: &'a str,
    width: u32,
    height: u32,
    /// Room for the labels of the y axis.
    left: u32,
    x: &'a Axis,
    y: &'a Axis,
    /// Of rows: no lines between them.
    is_rows: bool,
}

impl<'a> Frame<'a> {
    /// Around rows, each as wide and as high as `size` says, with their names beside them.
    fn of_rows(title: &'a str, size: (u32, u32), x: &'a Axis, y: &'a Axis) -> Self {
        let names = y.ticks.iter().map(|(_, name)| name.chars().count());
        Self {
            title,
            width: size.0,
            height: y.ticks.len() as u32 * size.1 + 54,
            left: 20 + 7 * names.max().unwrap_or(0) as u32,
            x,
            y,
            is_rows: true,
        }
    }
}

/// Axes, and what `paint` puts between them: both axes go from 0 to 1 there.
fn draw(
    frame: &Frame<'_>,
    paint: impl FnOnce(&mut Chart<'_, '_>) -> Drawn,
) -> Result<Markup, Failure> {
    let mut svg = String::new();
    let size = (frame.width * SCALE, frame.height * SCALE);
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_top(10 * SCALE)
            .margin_right(22 * SCALE)
            .margin_left(2 * SCALE)
            .margin_bottom(2 * SCALE)
            .x_label_area_size(42 * SCALE)
            .y_label_area_size(frame.left * SCALE)
            .build_cartesian_2d(frame.x.coordinate(), frame.y.coordinate())?;
        let (x_labels, y_labels) = (
            |place: &f64| frame.x.label_at(*place),
            |place: &f64| frame.y.label_at(*place),
        );
        let font = ("sans-serif", FONT).into_font().color(&INK);
        let mut mesh = chart.configure_mesh();
        mesh.max_light_lines(0)
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(SCALE))
            .axis_style(INK.stroke_width(SCALE))
            .label_style(font.clone())
            .axis_desc_style(font)
            .set_all_tick_mark_size(4 * SCALE)
            .x_label_formatter(&x_labels)
            .y_label_formatter(&y_labels)
            .x_desc(frame.x.label.clone());
        if frame.is_rows {
            mesh.disable_y_mesh();
        } else {
            mesh.y_desc(frame.y.label.clone());
        }
        mesh.draw()?;
        paint(&mut chart)?;
        root.present()?;
    }
    let (_, inside) = svg.split_once('>').unwrap_or_default();
    Ok(html! {
        svg role="img" aria-label=(frame.title) width=(frame.width) height=(frame.height)
            viewBox={ "0 0 " (size.0) " " (size.1) } xmlns="http://www.w3.org/2000/svg" {
            (PreEscaped(inside.trim_end().strip_suffix("</svg>").unwrap_or(inside)))
        }
    })
}

/// A mark of a few pixels around a point.
fn mark(chart: &mut Chart<'_, '_>, at: (f64, f64), look: Look) -> Drawn {
    const R: i32 = 4 * SCALE.cast_signed();

    let filled = look.color.filled();
    let corners: &[(i32, i32)] = match look.shape {
        Shape::Circle | Shape::Ring | Shape::Dot => {
            let radius = if look.shape == Shape::Dot { R / 2 } else { R };
            let style = if look.shape == Shape::Ring {
                look.color.stroke_width(2 * SCALE)
            } else {
                filled
            };
            return chart.plotting_area().draw(&Circle::new(at, radius, style));
        }
        Shape::Cross => {
            let cross = Cross::new(at, R, look.color.stroke_width(2 * SCALE));
            return chart.plotting_area().draw(&cross);
        }
        Shape::Square => &[(-R, -R), (R, -R), (R, R), (-R, R)],
        Shape::Triangle => &[(0, -R - 1), (R + 1, R), (-R - 1, R)],
        Shape::Diamond => &[(0, -R - 2), (R + 2, 0), (0, R + 2), (-R - 2, 0)],
        Shape::Down => &[(0, R + 1), (R + 1, -R), (-R - 1, -R)],
    };
    let shape = EmptyElement::at(at) + Polygon::new(corners.to_vec(), filled);
    chart.plotting_area().draw(&shape)
}

/// What marks mean: under the plot, where nothing covers it.
pub(super) fn legend<'a>(entries: impl Iterator<Item = (Look, &'a str)>, is_lines: bool) -> Markup {
    html! {
        ul.legend { @for (look, name) in entries { li { (swatch(look, is_lines)) (name) } } }
    }
}

fn swatch(look: Look, is_line: bool) -> Markup {
    let RGBColor(red, green, blue) = look.color;
    let color = format!("#{red:02X}{green:02X}{blue:02X}");
    let shape = |points: &str| html! { polygon fill=(color) points=(points) {} };
    html! {
        svg width="22" height="12" viewBox="0 0 22 12" xmlns="http://www.w3.org/2000/svg" aria-hidden="true" {
            @if is_line {
                line stroke=(color) stroke-width="2" x1="0" y1="6" x2="22" y2="6" {}
            } @else {
                @match look.shape {
                    Shape::Circle => { circle fill=(color) cx="11" cy="6" r="4" {} }
                    Shape::Dot => { circle fill=(color) cx="11" cy="6" r="2" {} }
                    Shape::Ring => { circle fill="none" stroke=(color) stroke-width="2" cx="11" cy="6" r="4" {} }
                    Shape::Square => { (shape("7,2 15,2 15,10 7,10")) }
                    Shape::Triangle => { (shape("11,1 16,10 6,10")) }
                    Shape::Diamond => { (shape("11,1 16,6 11,11 6,6")) }
                    Shape::Down => { (shape("11,11 16,2 6,2")) }
                    Shape::Cross => {
                        g stroke=(color) stroke-width="2" {
                            line x1="7" y1="2" x2="15" y2="10" {}
                            line x1="7" y1="10" x2="15" y2="2" {}
                        }
                    }
                }
            }
        }
    }
}

/// An axis for the drawing: places from 0 to 1, with ticks where they were put.
struct Along(Vec<f64>);

impl Ranged for Along {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        from + (f64::from(to - from) * place).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.0.clone()
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..1.0
    }
}

impl Axis {
    fn coordinate(&self) -> Along {
        Along(self.ticks.iter().map(|(place, _)| *place).collect())
    }

    fn label_at(&self, place: f64) -> String {
        let found = self.ticks.iter().find(|(at, _)| (at - place).abs() < 1e-9);
        found.map(|(_, label)| label.clone()).unwrap_or_default()
    }
}
