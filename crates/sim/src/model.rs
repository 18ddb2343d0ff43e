//! Devices in virtual time: what an operation costs, exactly and repeatably.

/// What kind of device is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceModel {
    /// One head: an operation that does not go on where the last one ended seeks first.
    HardDisk {
        /// Seek and half a turn, nanoseconds.
        seek_ns: u64,
        /// Bytes a second along a track.
        bytes_per_second: u64,
    },
    /// Several channels, each with its share of the bandwidth.
    SolidState {
        /// How many operations go on at once.
        channels: usize,
        /// Before the first byte, nanoseconds.
        latency_ns: u64,
        /// Bytes a second of all channels.
        bytes_per_second: u64,
    },
}

impl DeviceModel {
    /// A disk of 7,200 turns a minute.
    pub const DISK: Self = Self::HardDisk {
        seek_ns: 8_000_000,
        bytes_per_second: 150_000_000,
    };
    /// A SATA flash drive.
    pub const FLASH: Self = Self::SolidState {
        channels: 8,
        latency_ns: 80_000,
        bytes_per_second: 550_000_000,
    };

    /// How many operations go on at once.
    #[must_use]
    pub const fn at_once(self) -> usize {
        match self {
            Self::HardDisk { .. } => 1,
            Self::SolidState { channels, .. } => channels,
        }
    }

    /// How long an operation takes when the last one ended at `head`, nanoseconds.
    #[must_use]
    pub fn cost_ns(self, head: u64, offset: u64, len: u64) -> u64 {
        let transfer = |rate: u64| len.saturating_mul(1_000_000_000) / rate.max(1);
        match self {
            Self::HardDisk {
                seek_ns,
                bytes_per_second,
            } => {
                let seek = if offset == head { 0 } else { seek_ns };
                seek + transfer(bytes_per_second)
            }
            Self::SolidState {
                channels,
                latency_ns,
                bytes_per_second,
            } => latency_ns + transfer(bytes_per_second / channels.max(1) as u64),
        }
    }
}

/// An operation on a [`VirtualDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualOperation {
    /// What the caller knows it by.
    pub id: u64,
    /// Where.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// What a device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// Operations.
    pub operations: u64,
    /// Those that did not go on where the one before ended.
    pub seeks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl std::ops::Sub for DeviceWork {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            operations: self.operations - before.operations,
            seeks: self.seeks - before.seeks,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// A device that is given operations and says when they end.
#[derive(Debug)]
pub struct VirtualDevice {
    model: DeviceModel,
    /// With the time of arrival.
    waiting: Vec<(u64, VirtualOperation)>,
    running: Vec<(u64, VirtualOperation)>,
    /// Where the head of a disk is.
    head: u64,
    work: DeviceWork,
}

impl VirtualDevice {
    /// An idle device.
    #[must_use]
    pub const fn new(model: DeviceModel) -> Self {
        Self {
            model,
            waiting: Vec::new(),
            running: Vec::new(),
            head: 0,
            work: DeviceWork {
                operations: 0,
                seeks: 0,
                bytes: 0,
            },
        }
    }

    /// What it did so far.
    #[must_use]
    pub const fn work(&self) -> DeviceWork {
        self.work
    }

    /// Gives it an operation.
    pub fn submit(&mut self, now_ns: u64, operation: VirtualOperation) {
        self.waiting.push((now_ns, operation));
        self.start(now_ns);
    }

    /// When the next operation ends.
    #[must_use]
    pub fn next_end_ns(&self) -> Option<u64> {
        self.running.iter().map(|(end, _)| *end).min()
    }

    /// The operation that ends at [`VirtualDevice::next_end_ns`].
    pub fn take_ended(&mut self) -> Option<(u64, VirtualOperation)> {
        let end = self.next_end_ns()?;
        let index = self.running.iter().position(|(at, _)| *at == end)?;
        let ended = self.running.remove(index);
        self.start(end);
        Some(ended)
    }

    fn start(&mut self, now_ns: u64) {
        while self.running.len() < self.model.at_once() && !self.waiting.is_empty() {
            let (_, operation) = self.waiting.remove(self.choose(now_ns));
            let VirtualOperation { offset, len, .. } = operation;
            let end = now_ns + self.model.cost_ns(self.head, offset, len);
            self.work.operations += 1;
            self.work.seeks += u64::from(offset != self.head);
            self.work.bytes += len;
            self.head = operation.offset + operation.len;
            self.running.push((end, operation));
        }
    }

    /// A disk goes on where it is, unless another operation has waited for long.
    fn choose(&self, now_ns: u64) -> usize {
        const LONG_NS: u64 = 50_000_000;
        let disk = matches!(self.model, DeviceModel::HardDisk { .. });
        let starved = self
            .waiting
            .first()
            .is_some_and(|(since, _)| now_ns.saturating_sub(*since) > LONG_NS);
        if !disk || starved {
            return 0;
        }
        let goes_on = |waiting: &(u64, VirtualOperation)| waiting.1.offset == self.head;
        self.waiting.iter().position(goes_on).unwrap_or(0)
    }
}
