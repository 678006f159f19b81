//! The messages of the Remote Execution API, version 2, and of `google.longrunning` with which a
//! server executes an action, with the field numbers of their `.proto` files. Fields that we
//! neither set nor read are omitted.

use crate::fault::line;
use crate::grpc::{decode, of_code, text_of};
use crate::message::Status;
use crate::{BlobId, Executed, Fault};
use bytes::Bytes;
use prost::Message;
use tonic::Code;

/// The name of [`ExecuteResponse`] in an `Any`, after its last slash.
const EXECUTE_RESPONSE: &str = "build.bazel.remote.execution.v2.ExecuteResponse";

#[derive(Clone, PartialEq, Message)]
pub struct ExecuteRequest {
    #[prost(string, tag = "1")]
    pub instance_name: String,
    #[prost(bool, tag = "3")]
    pub skip_cache_lookup: bool,
    #[prost(message, optional, tag = "6")]
    pub action_digest: Option<BlobId>,
}

/// `WaitExecutionRequest`, and `google.longrunning.CancelOperationRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct OperationName {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// `google.longrunning.Operation`.
#[derive(Clone, PartialEq, Message)]
pub struct Operation {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bool, tag = "3")]
    pub done: bool,
    #[prost(message, optional, tag = "4")]
    pub error: Option<Status>,
    #[prost(message, optional, tag = "5")]
    pub response: Option<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExecuteResponse {
    /// An `ActionResult`.
    #[prost(bytes = "bytes", tag = "1")]
    pub result: Bytes,
    #[prost(bool, tag = "2")]
    pub cached_result: bool,
    #[prost(message, optional, tag = "3")]
    pub status: Option<Status>,
}

impl Operation {
    /// Returns the execution that the server completed.
    ///
    /// # Errors
    /// It did not execute the action to its end.
    pub fn executed(self) -> Result<Executed, Fault> {
        check(self.error.as_ref())?;
        let wrong = || Fault::Wrong("it ended an action without a result".to_owned());
        let response = self.response.ok_or_else(wrong)?;
        if response.type_url.rsplit('/').next() != Some(EXECUTE_RESPONSE) {
            return Err(wrong());
        }
        let response: ExecuteResponse = decode(response.value)?;
        check(response.status.as_ref())?;
        Ok(Executed { result: response.result, is_cached: response.cached_result })
    }
}

/// Checks the status of an execution. Two codes are like no other call's: one is an input that the
/// server lacks, or a worker, so the inputs are sent again; and one is the timeout of the action.
fn check(status: Option<&Status>) -> Result<(), Fault> {
    let Some(Status { code, message }) = status else { return Ok(()) };
    match Code::from_i32(*code) {
        Code::Ok => Ok(()),
        Code::FailedPrecondition => {
            Err(Fault::Temporary(text_of(Code::FailedPrecondition, message)))
        }
        Code::DeadlineExceeded => Err(Fault::Unfinished(format!("timeout: {}", line(message)))),
        code => Err(of_code(code, message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ended(code: i32, type_url: &str) -> Result<Executed, Fault> {
        let response = ExecuteResponse {
            result: "result".into(),
            cached_result: true,
            status: Some(Status { code, message: "why\n".to_owned() }),
        };
        let value = response.encode_to_vec().into();
        let response = Some(Any { type_url: type_url.to_owned(), value });
        Operation { response, done: true, ..Operation::default() }.executed()
    }

    #[test]
    fn an_action_was_executed_only_with_the_status_ok() {
        let url = format!("type.googleapis.com/{EXECUTE_RESPONSE}");
        let executed = ended(0, &url).unwrap();
        assert_eq!((&executed.result[..], executed.is_cached), (&b"result"[..], true));
        let fault = |code| ended(code as i32, &url).unwrap_err();
        let lacks = fault(Code::FailedPrecondition);
        assert!(lacks.is_temporary() && lacks.to_string().ends_with(": why "), "{lacks}");
        assert!(matches!(fault(Code::NotFound), Fault::Missing));
        assert!(matches!(fault(Code::DeadlineExceeded), Fault::Unfinished(_)));
        assert!(matches!(fault(Code::InvalidArgument), Fault::Refused(_)));
        assert!(fault(Code::ResourceExhausted).is_temporary());
        assert!(fault(Code::Internal).is_temporary());
    }

    #[test]
    fn another_message_in_place_of_the_response_is_no_result() {
        assert!(matches!(ended(0, "type.googleapis.com/other"), Err(Fault::Wrong(_))));
        assert!(matches!(Operation::default().executed(), Err(Fault::Wrong(_))));
        let error = Some(Status { code: Code::Unavailable as i32, message: String::new() });
        let failed = Operation { error, done: true, ..Operation::default() };
        assert!(failed.executed().unwrap_err().is_temporary());
    }

    proptest! {
        #[test]
        fn any_operation_is_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            if let Ok(operation) = decode::<Operation>(bytes.into()) {
                let _ = operation.executed();
            }
        }
    }
}
