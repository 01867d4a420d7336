//! Lines of text: a web server's log, and comma-separated measurements.

use bytes::Bytes;

use super::calendar::Calendar;
use super::{index, skewed};

const PATHS: [&str; 16] = [
    "/",
    "/assets/site.css",
    "/assets/app.js",
    "/catalogue/item",
    "/catalogue/search",
    "/images/thumb",
    "/images/banner.webp",
    "/basket",
    "/account/orders",
    "/account/login",
    "/feeds/news.xml",
    "/api/stock",
    "/robots.txt",
    "/help/returns",
    "/articles/spring-guide",
    "/downloads/manual.pdf",
];
const AGENTS: [&str; 10] = [
    "Lantern/41.2 (Desktop; Linux x86_64) Render/2026.1 Script/9.4",
    "Lantern/41.2 (Desktop; Windows 11; 64 bit) Render/2026.1 Script/9.4",
    "Lantern/40.0 (Phone; Android 15; Build K7.2241) Render/2025.9 Script/9.1 Touch",
    "Harbour/18.3 (Tablet; iPadOS 18.3; like Lantern) Render/2025.12 Script/9.3 Touch",
    "Harbour/17.6 (Desktop; macOS 14.6; arm64) Render/2025.4 Script/8.8",
    "Quill/7.11 (Desktop; Linux aarch64; rv:7.11) Engine/20260105",
    "FeedFetcher/3.0 (+https://feeds.example/about.html)",
    "SiteCrawler/2.1 (compatible; +https://crawler.example/bot.html)",
    "probe/1.4",
    "-",
];
const STATUSES: [u16; 8] = [200, 200, 200, 304, 301, 404, 206, 500];

/// Lines as web servers write them: address, time, request, status, length, referrer, agent.
#[derive(Clone, Debug)]
pub(super) struct Logs {
    rng: fastrand::Rng,
    calendar: Calendar,
    // Visitors come back: address, agent, where they came from.
    visitors: Vec<Visitor>,
}

#[derive(Clone, Debug)]
struct Visitor {
    address: [u8; 4],
    agent: &'static str,
}

impl Visitor {
    fn random(rng: &mut fastrand::Rng) -> Self {
        Self {
            address: rng.u32(..).to_be_bytes(),
            agent: skewed::<&str>(rng, &AGENTS),
        }
    }
}

impl Logs {
    pub(super) fn new(mut rng: fastrand::Rng) -> Self {
        let visitors = (0..100).map(|_| Visitor::random(&mut rng)).collect();
        Self {
            rng,
            calendar: Calendar::default(),
            visitors,
        }
    }

    pub(super) fn message(&mut self) -> Bytes {
        let rng = &mut self.rng;
        self.calendar.advance(rng, 400);
        if rng.u8(..) < 60 {
            let index = index(rng, self.visitors.len());
            self.visitors[index] = Visitor::random(rng);
        }
        let Visitor {
            address: [a, b, c, d],
            agent,
        } = skewed(rng, &self.visitors);
        let time = self.calendar.log();
        let path = skewed(rng, &PATHS);
        let item = rng.u32(1000..6000);
        let status = skewed(rng, &STATUSES);
        let len = if *status == 304 {
            0
        } else {
            rng.u32(300..60_000)
        };
        let from = skewed(rng, &PATHS);
        Bytes::from(format!(
            "{a}.{b}.{c}.{d} - - [{time}] \"GET {path}?id={item}&lang=en HTTP/1.1\" {status} {len} \
             \"https://www.shop.example{from}?id={item}&view=list\" \"{agent}\""
        ))
    }
}

/// Lines of measurements: a place, a time, values that move slowly.
#[derive(Clone, Debug)]
pub(super) struct Csv {
    rng: fastrand::Rng,
    calendar: Calendar,
    sequence: u64,
}

const STATIONS: [&str; 12] = [
    "northgate",
    "millpond",
    "ridge",
    "eastquay",
    "foundry",
    "orchard",
    "beacon",
    "lowfield",
    "weir",
    "castle",
    "junction",
    "moor",
];

impl Csv {
    pub(super) fn new(mut rng: fastrand::Rng) -> Self {
        let sequence = rng.u64(100_000..900_000);
        Self {
            rng,
            calendar: Calendar::default(),
            sequence,
        }
    }

    pub(super) fn message(&mut self) -> Bytes {
        let rng = &mut self.rng;
        self.calendar.advance(rng, 45_000);
        self.sequence += 1;
        let time = self.calendar.iso();
        let station = skewed(rng, &STATIONS);
        let latitude = rng.i32(-900_000..900_000);
        let longitude = rng.i32(0..1_800_000);
        let depth = rng.u32(0..7000);
        let size = rng.u32(10..60);
        Bytes::from(format!(
            "{time},{},{},{}.{:02},{}.{},ml,m{},{station},ok",
            Fixed(latitude),
            Fixed(longitude),
            depth / 100,
            depth % 100,
            size / 10,
            size % 10,
            self.sequence,
        ))
    }
}

/// Ten-thousandths, as a decimal number.
struct Fixed(i32);

impl std::fmt::Display for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let magnitude = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:04}", magnitude / 10_000, magnitude % 10_000)
    }
}
