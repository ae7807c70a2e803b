// An OpenID provider whose user consents to everything: `node oidc.mjs HOST:PORT [REDIRECT_URI…]`.
//
// It registers clients dynamically, has the registered client v2, with redirect URIs the client gateway with the secret gateway-secret, and requires PKCE. Access tokens are signed JWTs; their audience is the requested
// resource and their scopes are the requested scopes. The user is ann in the group staff, unless the client sends a login hint. There are no
// pages: the authorization URL redirects, in several steps, back to the client.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import http from 'node:http';
import Provider from 'oidc-provider';

const [address, ...redirects] = process.argv.slice(2);
const [host, port] = address.split(':');
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const SCOPES = 'mcp notes:write';

const provider = new Provider(`http://${address}`, {
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: randomBytes(8).toString('hex') }] },
  clients: [
    {
      client_id: 'v2',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1:1/callback'],
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none'
    },
    ...(redirects.length ? [{ client_id: 'gateway', client_secret: 'gateway-secret', redirect_uris: redirects }] : [])
  ],
  cookies: { keys: [randomBytes(16).toString('hex')] },
  scopes: ['openid', 'offline_access', ...SCOPES.split(' ')],
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: SCOPES,
        audience: resource,
        accessTokenTTL: 600,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } }
      })
    }
  },
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  extraTokenClaims: () => ({ groups: ['staff'] })
});

// consent answers every prompt for the user.
async function consent(ctx) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(ctx.req, ctx.res);
  if (prompt.name === 'login') {
    return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: params.login_hint ?? 'ann' } });
  }
  const grant =
    (grantId && (await provider.Grant.find(grantId))) || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) grant.addResourceScope(resource, scopes.join(' '));
  return provider.interactionFinished(ctx.req, ctx.res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

provider.use(async (ctx, next) => {
  if (ctx.path.startsWith('/interaction/')) {
    ctx.respond = false; // interactionFinished writes the response
    return consent(ctx);
  }
  return next();
});

http.createServer(provider.callback()).listen(Number(port), host);
