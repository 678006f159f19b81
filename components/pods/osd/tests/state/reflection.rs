//! Clients learn the messages of the release, and what they mean, from the server itself.

use crate::osd::Osd;
use crate::remote::RemoteOsd;
use prost::Message;
use prost_types::FileDescriptorProto;
use tonic::Code;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[tokio::test]
async fn reflection_has_the_comments_of_messages() {
    let osd = Osd::start_with(&[]);
    let mut client = ServerReflectionClient::new(osd.channel().await);
    let symbol = MessageRequest::FileContainingSymbol("osbuild.v1.ResolverSpec".into());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(symbol) };
    let requests = tokio_stream::iter([request]);
    let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::FileDescriptorResponse(answer)) = answer else { panic!("no file") };
    let file = FileDescriptorProto::decode(answer.file_descriptor_proto[0].as_slice()).unwrap();
    let locations = file.source_code_info.unwrap().location;
    let has = |text: &str| locations.iter().any(|one| one.leading_comments().contains(text));
    assert!(has("The name servers and the search list of the node"));
    // Readers of descriptors refuse a location without a span.
    assert!(locations.iter().all(|location| [3, 4].contains(&location.span.len())));
}

#[tokio::test]
async fn the_name_of_an_unknown_symbol_comes_back_in_part_and_a_longer_one_does_not() {
    let remote = RemoteOsd::start(&[]);
    let reader = remote.identity("carol", "reader");
    let mut client = ServerReflectionClient::new(remote.channel(&reader).await.unwrap());
    let mut ask = async |length| {
        let symbol = MessageRequest::FileContainingSymbol("{".repeat(length));
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some(symbol) };
        let asked = client.server_reflection_info(tokio_stream::iter([request])).await;
        asked.unwrap().into_inner().message().await
    };
    let refused = ask(4_000).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().starts_with("symbol '{{{"), "{refused:?}");
    assert!(refused.message().len() < 3_000, "{} bytes", refused.message().len());
    assert_eq!(ask(9_000).await.unwrap(), None);
}
