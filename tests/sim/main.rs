//! Experiments in virtual time: sessions, links and processors of the simulator.

mod echo;
mod experiment;
mod thesis;
