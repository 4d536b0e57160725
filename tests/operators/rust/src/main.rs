//! Runs the operator with the kubeconfig of the environment.

use kube::Config;

fn main() -> Result<(), lighthouse_operator::Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        lighthouse_operator::operate(Config::infer().await?, || println!("the operator runs")).await
    })
}
