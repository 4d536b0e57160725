package dev.sternpost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.platform.testkit.engine.EngineTestKit;

@SternpostTest(load = "../fixtures", flags = "--log-level=debug")
class SternpostExtensionTest {
  private final Sternpost server;

  SternpostExtensionTest(Sternpost server) {
    this.server = server;
  }

  @Test
  void theOfficialClient(ApiClient client, @TestNamespace String namespace) throws ApiException {
    CoreV1Api core = new CoreV1Api(client);
    V1ConfigMap wanted = new V1ConfigMap().metadata(new V1ObjectMeta().name("a")).data(Map.of("b", "c"));
    core.createNamespacedConfigMap(namespace, wanted).execute();
    assertEquals(Map.of("b", "c"), core.readNamespacedConfigMap("a", namespace).execute().getData());
    ApiException error =
        assertThrows(ApiException.class, () -> core.readNamespacedConfigMap("b", namespace).execute());
    assertEquals(404, error.getCode());
  }

  @Test
  void parametersAreOfOneServer(Sternpost other, @TestNamespace String one, @TestNamespace String same) {
    assertEquals(server.url(), other.url());
    assertEquals(one, same);
  }

  @Test
  void whatIsLoadedIsThere() {
    assertEquals(200, server.request("GET", "/apis/example.com/v1/namespaces/harbour/boats/loaded", null).statusCode());
  }

  @Test
  void failuresShowTheLogAndServersEnd() {
    PrintStream before = System.err;
    ByteArrayOutputStream written = new ByteArrayOutputStream();
    System.setErr(new PrintStream(written, true, StandardCharsets.UTF_8));
    Failing.enabled = true;
    try {
      EngineTestKit.engine("junit-jupiter")
          .selectors(selectClass(Failing.class))
          .execute()
          .testEvents()
          .assertStatistics(statistics -> statistics.failed(1));
    } finally {
      Failing.enabled = false;
      System.setErr(before);
    }
    String text = written.toString(StandardCharsets.UTF_8);
    assertTrue(text.contains("log of sternpost during fails("), text);
    assertTrue(text.contains("/api/v1/nodes"), text);
    assertNotEquals(server.pid(), Failing.pid);
    assertTrue(ProcessHandle.of(Failing.pid).isEmpty());
  }

  @SternpostTest(flags = {"--log-level=debug", "--event-ttl=2h"})
  static class Failing {
    static boolean enabled;
    static long pid;

    @Test
    void fails(Sternpost server) {
      Assumptions.assumeTrue(enabled);
      pid = server.pid();
      assertEquals(404, server.request("GET", "/api/v1/nodes", null).statusCode());
    }
  }
}
