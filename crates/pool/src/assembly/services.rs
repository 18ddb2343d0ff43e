//! The services of a pool: what it does for the layers above its blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use base::ObjectId;
use base::clock::Clock;
use base::random::Rng;
use dmu::Zap;
use format::config::directory;
use pipeline::Pipeline;
use vdev::VdevTree;

use super::foundation::{Allocating, WithSpace};
use crate::allocation::opening::OpenedSpace;
use crate::blocks::WriteRules;
use crate::blocks::dedup::DedupTables;
use crate::blocks::references::BlockReferenceTable;
use crate::config::PoolConfig;
use crate::config::state::ConfigState;
use crate::error::Result;
use crate::events::Events;
use crate::logs::devices::LogDevices;
use crate::logs::intent_logs::IntentLogs;
use crate::mos::device_list::DeviceList;
use crate::mos::features::Features;
use crate::mos::history::History;
use crate::pool::services::PoolServices;
use crate::scan::control::Scrub;
use crate::sync::ageing::Ageing;
use crate::sync::frees::Frees;
use crate::sync::task_effects::TaskEffects;
use crate::trim::control::Trim;
use crate::trim::kind::Kind;

/// Which pool it is, and what its own objects say.
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) directory: Zap,
    pub(crate) features: Features,
    pub(crate) config: PoolConfig,
    /// The object that stores the configuration; 0 while a new pool has none yet.
    pub(crate) config_object: ObjectId,
    /// The object of the history; a new pool has none yet, and old ones never.
    pub(crate) history_object: Option<ObjectId>,
    /// The host, for the history.
    pub(crate) host_name: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    /// The rules of the pool's own object set.
    pub(crate) rules: WriteRules,
}

/// With the services.
pub(crate) struct WithServices {
    pub(crate) services: Arc<PoolServices>,
    pub(super) name: String,
    pub(super) vdevs: Arc<VdevTree>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) space: Option<OpenedSpace>,
    pub(super) writing: Option<Writing>,
}

/// What a pool that is written has besides.
pub(super) struct Writing {
    pub(super) allocating: Allocating,
    /// The rules of the pool's own object set.
    pub(super) rules: WriteRules,
    pub(super) log_devices: Arc<LogDevices>,
    pub(super) logs: Arc<IntentLogs>,
    pub(super) scrub: Arc<Scrub>,
    pub(super) trim: Arc<Trim>,
    pub(super) initialize: Arc<Trim>,
}

impl WithSpace {
    /// With the services.
    ///
    /// # Errors
    /// The history cannot be opened.
    pub(crate) fn with_services(self, identity: Identity) -> Result<WithServices> {
        let guid = identity.config.guid();
        let events = Events::new(&identity.name, guid, Arc::clone(&identity.clock));
        self.foundation.errors.tell(&events);
        let history = identity.history_object;
        let history = History::open(&self.mos, history, &identity.host_name, &events)?;
        let logged = self.space.as_ref();
        let logged = logged.is_some_and(|space| space.space.has_logs());
        let store = self.foundation.store;
        let references = BlockReferenceTable::new();
        let dedup = DedupTables::new();
        let frees = Frees::new(
            Arc::clone(&store),
            Arc::clone(&references),
            Arc::clone(&dedup),
            logged,
        );
        let (vdevs, pipeline) = (self.foundation.vdevs, self.foundation.pipeline);
        let writing = self.writing.map(|allocating| {
            let log_devices = LogDevices::new(&vdevs, &allocating.space.space);
            let (rng, rules) = (Arc::clone(&identity.rng), identity.rules);
            let logs = IntentLogs::new(&allocating.engine, &pipeline, rng, rules, &log_devices);
            Writing {
                allocating,
                rules,
                log_devices,
                logs: Arc::new(logs),
                scrub: Scrub::new(frees.scan()),
                trim: Trim::new(Kind::Trim),
                initialize: Trim::new(Kind::Initialize),
            }
        });
        let of_writing = writing.as_ref();
        let engine = of_writing.map(|writing| writing.allocating.engine.as_ref());
        let services = PoolServices {
            mos: self.mos,
            directory: identity.directory,
            store,
            clock: identity.clock,
            rng: identity.rng,
            version: AtomicU64::new(identity.version),
            writable: AtomicBool::new(of_writing.is_some()),
            features: Arc::new(identity.features.noting_for(engine)),
            history: Arc::new(history),
            config: Arc::new(ConfigState::new(identity.config, identity.config_object)),
            frees: Arc::new(frees),
            references,
            dedup,
            limits: self.limits,
            logs: of_writing.map(|writing| Arc::clone(&writing.logs)),
            scrub: of_writing.map(|writing| Arc::clone(&writing.scrub)),
            errors: self.foundation.errors,
            spares: DeviceList::new(directory::SPARES),
            caches: DeviceList::new(directory::L2CACHE),
            events,
            task: TaskEffects::new(),
            ageing: Ageing::default(),
        };
        Ok(WithServices {
            services: Arc::new(services),
            name: identity.name,
            vdevs,
            pipeline,
            space: self.space,
            writing,
        })
    }
}
