//! What is timed by the benches `frames` and `decision`, and counted in instructions by `counts`.

/// Something to be done so many times.
pub(crate) type Piece = Box<dyn FnMut(u64)>;

/// A piece by its name, and how to make one: nothing that is made is counted.
pub(crate) type Named = (&'static str, fn() -> Piece);

/// The loop around a piece is compiled together with it.
pub(crate) fn over(mut once: impl FnMut() + 'static) -> Piece {
    Box::new(move |times| {
        for _ in 0..times {
            once();
        }
    })
}
