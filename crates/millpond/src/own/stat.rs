//! `millpond stat`: the instruments of running pools.

use control::{Request, Response};

use crate::Outcome;
use crate::daemons::{ended, pools};
use crate::grammar::Invocation;
use crate::output::{complain, print};

pub(crate) fn stat(call: &Invocation) -> Outcome {
    let (connections, complete) = pools(call.operands())?;
    if connections.is_empty() && complete {
        complain(&"no pools available");
    }
    for mut connection in connections {
        let mut out = format!("pool: {}\n", connection.pool());
        connection.call(&Request::Metrics, &mut |part| {
            if let Response::Line(line) = part {
                out += &line;
                out.push('\n');
            }
            Ok(())
        })?;
        print(&out)?;
    }
    ended(complete)
}
