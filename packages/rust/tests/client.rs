//! Servers with `kube::Client`.

use std::{sync::LazyLock, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams},
    core::ObjectMeta,
};
use sternpost_test::Server;

/// Tests run in the directory of the package, wherever they were built.
const FIXTURES: &str = "../fixtures";

/// One for all tests, as users would have it: it ends with the process.
static SERVER: LazyLock<Server> = LazyLock::new(|| Server::builder().load(FIXTURES).start().unwrap());

#[tokio::test]
async fn objects_are_written_and_read() {
    let client = SERVER.client().await.unwrap();
    let namespace = SERVER.create_namespace(&client).await.unwrap();
    assert!(namespace.starts_with("test-"), "{namespace}");
    let api = Api::<ConfigMap>::namespaced(client, &namespace);
    let data = [("b".to_owned(), "c".to_owned())].into();
    let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
    let wanted = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
    let made = api.create(&PostParams::default(), &wanted).await.unwrap();
    assert_eq!(made.data, wanted.data);
    assert_eq!(api.get("a").await.unwrap().data, wanted.data);
}

#[tokio::test]
async fn what_is_loaded_is_there() {
    let client = SERVER.client().await.unwrap();
    let boats =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Boat"), "boats");
    let api = Api::<DynamicObject>::namespaced_with(client, "harbour", &boats);
    assert_eq!(api.get("loaded").await.unwrap().data["spec"]["masts"], 2);
}

#[tokio::test]
async fn controllers_are_a_switch() {
    let bare = Server::builder().without_controllers().start().unwrap();
    let client = bare.client().await.unwrap();
    let name = bare.create_namespace(&client).await.unwrap();
    let api = Api::<Namespace>::all(client);
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    let phase = api.get(&name).await.unwrap().status.unwrap().phase;
    assert_eq!(phase.as_deref(), Some("Terminating"));
}

#[tokio::test]
async fn namespaces_end() {
    let client = SERVER.client().await.unwrap();
    let name = SERVER.create_namespace(&client).await.unwrap();
    let api = Api::<Namespace>::all(client);
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    for _ in 0..1200 {
        if api.get_opt(&name).await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it is still there");
}
