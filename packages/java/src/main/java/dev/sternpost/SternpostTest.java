package dev.sternpost;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A class whose tests have a server. Parameters of constructors and methods may be of type {@link Sternpost} or
 * {@code io.kubernetes.client.openapi.ApiClient}, or be annotated with {@link TestNamespace}. Classes that say the same
 * share a server.
 */
@Documented
@Inherited
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@ExtendWith(SternpostExtension.class)
public @interface SternpostTest {
  /** Files, directories and kustomizations whose objects are there from the beginning. */
  String[] load() default {};

  /** Which controllers run; {@code "-*"} for none. */
  String controllers() default "*";

  /** Further flags of {@code sternpost serve}. */
  String[] flags() default {};
}
