//! JSON: status documents of counters, and events of small devices.

use bytes::Bytes;

use super::calendar::Calendar;
use super::skewed;

const ZONES: [&str; 14] = [
    "front", "search", "basket", "images", "accounts", "payments", "articles", "feeds", "stock",
    "mail", "reports", "admin", "partners", "legacy",
];
const PEERS: usize = 18;

/// The counters of a server, once a second.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    rng: fastrand::Rng,
    calendar: Calendar,
    zones: Vec<Counters>,
    peers: Vec<Counters>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    requests: u64,
    errors: u64,
    received: u64,
    sent: u64,
}

impl Counters {
    fn random(rng: &mut fastrand::Rng) -> Self {
        Self {
            requests: rng.u64(10_000..9_000_000),
            errors: rng.u64(0..2000),
            received: rng.u64(1_000_000..900_000_000),
            sent: rng.u64(10_000_000..9_000_000_000),
        }
    }

    /// One second later; most are idle in most seconds.
    fn advance(&mut self, rng: &mut fastrand::Rng) {
        if rng.u8(..) < 160 {
            return;
        }
        let requests = rng.u64(1..9);
        self.requests += requests;
        self.errors += u64::from(rng.u8(..) < 5);
        self.received += requests * rng.u64(200..900);
        self.sent += requests * rng.u64(1000..40_000);
    }
}

impl Metrics {
    pub(super) fn new(mut rng: fastrand::Rng) -> Self {
        let mut counters = |count| (0..count).map(|_| Counters::random(&mut rng)).collect();
        let (zones, peers) = (counters(ZONES.len()), counters(PEERS));
        Self {
            rng,
            calendar: Calendar::default(),
            zones,
            peers,
        }
    }

    pub(super) fn message(&mut self) -> Bytes {
        self.calendar.advance(&mut self.rng, 1000);
        for counters in self.zones.iter_mut().chain(&mut self.peers) {
            counters.advance(&mut self.rng);
        }
        let zones = ZONES.iter().zip(&self.zones).map(|(name, counters)| {
            let Counters {
                requests,
                errors,
                received,
                sent,
            } = counters;
            let (hits, processing) = (requests - requests / 7, requests % 3);
            format!(
                "\"{name}\":{{\"processing\":{processing},\"requests\":{requests},\
                 \"responses\":{{\"success\":{hits},\"redirect\":{},\"failure\":{errors}}},\
                 \"received\":{received},\"sent\":{sent}}}",
                requests / 7,
            )
        });
        let peers = (1..).zip(&self.peers).map(|(number, counters)| {
            let Counters {
                requests,
                errors,
                received,
                sent,
            } = counters;
            let state = if errors % 16 == 15 { "down" } else { "up" };
            format!(
                "{{\"id\":{number},\"server\":\"10.20.0.{number}:8080\",\"weight\":1,\
                 \"state\":\"{state}\",\"active\":{},\"requests\":{requests},\"fails\":{errors},\
                 \"unavailable\":0,\"received\":{received},\"sent\":{sent}}}",
                requests % 4,
            )
        });
        let text = format!(
            "{{\"version\":4,\"node\":\"gateway-03\",\"generation\":17,\"time\":\"{}\",\
             \"uptime_ms\":{},\"zones\":{{{}}},\"peers\":[{}]}}",
            self.calendar.iso(),
            self.calendar.millis(),
            zones.collect::<Vec<_>>().join(","),
            peers.collect::<Vec<_>>().join(","),
        );
        Bytes::from(text)
    }
}

const KINDS: [&str; 6] = [
    "door_opened",
    "temperature",
    "door_closed",
    "battery_low",
    "motion_detected",
    "restarted",
];
const ROOMS: [&str; 5] = ["kitchen", "office-2", "lobby", "store", "workshop"];

/// Events that devices report.
#[derive(Clone, Debug)]
pub(super) struct Events {
    rng: fastrand::Rng,
    calendar: Calendar,
    sequence: u32,
}

impl Events {
    pub(super) fn new(mut rng: fastrand::Rng) -> Self {
        let sequence = rng.u32(1000..100_000);
        Self {
            rng,
            calendar: Calendar::default(),
            sequence,
        }
    }

    pub(super) fn message(&mut self) -> Bytes {
        let rng = &mut self.rng;
        self.calendar.advance(rng, 700);
        self.sequence = self.sequence.wrapping_add(1);
        let device = rng.u32(0..40);
        let room = ROOMS[device as usize % ROOMS.len()];
        Bytes::from(format!(
            "{{\"event\":\"{}\",\"sequence\":{},\"device\":{{\"id\":\"sensor-{device:04}\",\
             \"model\":\"TH-200\",\"firmware\":\"2.4.1\",\"room\":\"{room}\"}},\"time\":\"{}\",\
             \"temperature\":{}.{},\"humidity\":{},\"battery\":{},\"alarm\":false,\
             \"status\":{{\"temperature\":\"ok\",\"humidity\":\"ok\",\"battery\":\"ok\"}}}}",
            skewed(rng, &KINDS),
            self.sequence,
            self.calendar.iso(),
            rng.u32(17..25),
            rng.u32(0..10),
            rng.u32(30..60),
            rng.u32(70..100),
        ))
    }
}
