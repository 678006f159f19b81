//! An API server that is away for longer than the tokens of pods are valid.

use super::{Faults, IS_READY};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::cluster::lab::Lab;
use crate::vm::cluster::wait::{Seen, wait};
use osbuild::error::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long it is away. The token of a pod is valid for 3607 seconds.
const AWAY: Duration = Duration::from_secs(3660);

/// How often to look whether the machine still runs.
const INTERVAL: Duration = Duration::from_secs(30);

/// The errors of the kubelet that the console may print meanwhile, and how their lines begin.
const MAX_ERRORS: usize = 60;
const ERROR: &str = "init: kubelet: E";

/// Prints the token of a pod.
const TOKEN: &str = "exec reader -- cat /var/run/secrets/kubernetes.io/serviceaccount/token";

/// The user as which the API server accepts it.
const USER: &str = "system:serviceaccount:default:default";

/// The containers go on. The node is Ready once the API server is back, and gives pods new tokens.
pub fn pods_survive_an_hour_without_the_cluster(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "hour")?;
    let mut faults = Faults::start(site, &lab, "hour-without-cluster")?;
    let token = faults.token()?;
    faults.survives("an hour without the API server", |faults| {
        let errors = |console: &str| console.matches(ERROR).count();
        let before = errors(&faults.machine.console()?);
        faults.cluster.plane.stop_serving();
        let start = Instant::now();
        while start.elapsed() < AWAY {
            sleep(INTERVAL);
            faults.machine.is_running()?;
        }
        let printed = errors(&faults.machine.console()?) - before;
        let claim = "the console prints few errors while the API server is away";
        faults.cluster.outcome.check(claim, printed <= MAX_ERRORS, || format!("{printed} errors"));
        faults.cluster.plane.serve(faults.site)
    })?;
    faults.renews(&token)?;
    faults.kubectl.output(&["rollout", "restart", "deployment/steady"])?;
    faults.deployment_runs("a Deployment is replaced after the hour")?;
    faults.hold("the node is Ready at the end", IS_READY, "True")?;
    faults.end()
}

impl Faults<'_> {
    fn token(&self) -> Result<String> {
        self.kubectl.output(&TOKEN.split(' ').collect::<Vec<_>>())
    }

    /// The pod gets another token, which the API server accepts.
    fn renews(&mut self, before: &str) -> Result<()> {
        let renewed = wait(super::TIMEOUT, || {
            let token = self.token()?;
            Ok(match token == before {
                true => Seen::NotYet("the pod has the token of an hour ago".to_owned()),
                false => Seen::Yes(token),
            })
        })?;
        let accepted = match renewed {
            Ok(token) => {
                let user = self.kubectl.user_of_token(&self.cluster.plane, &token)?;
                if user.contains(USER) { Ok(()) } else { Err(user) }
            }
            Err(why) => Err(why),
        };
        self.cluster.outcome.claim("a pod has a new token, which is valid", accepted);
        Ok(())
    }
}
