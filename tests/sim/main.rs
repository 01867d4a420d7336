//! Experiments in virtual time: sessions, links and processors of the simulator.

mod absurd;
mod blocks;
mod change;
mod common;
mod connections;
mod dictionary;
mod echo;
mod experiment;
mod oracle;
mod parallel;
mod short;
mod stalls;
mod starved;
mod storm;
mod thesis;
mod unread;
