//! Load: leeches that take a resource from others, and the replication of a recorded system by them.
//!
//! Source: M. Jägemar, *Utilizing hardware monitoring to improve the quality of service and performance of industrial systems* (2018), chapter 6.

mod intensity;

pub use self::intensity::Intensity;
